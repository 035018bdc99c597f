use retro_index::{Volume, build::*};
use retro_replayer::*;
use std::time::Instant;
fn main() {
    let mut a = std::env::args().skip(1);
    let dir = a.next().unwrap();
    let window: u64 = a.next().unwrap().parse().unwrap();
    let engine = std::path::PathBuf::from(a.next().unwrap());
    let r = Replayer::open(retro_recording::Recording::open(std::path::Path::new(&dir)).unwrap(), engine);
    let index = std::path::PathBuf::from(std::env::var("IDX").unwrap_or("/tmp/idx".into()));
    let _ = std::fs::remove_dir_all(&index);
    let o = Options { window_size: window, ..Options::default() };
    let jobs = jobs(&r, &index, &o).unwrap();
    let n: u64 = jobs.iter().map(|j| j.interval.instructions()).sum();
    let t = Instant::now();
    build(&r, &index, &jobs, &o, &Unwatched).unwrap();
    let t = t.elapsed().as_secs_f64();
    let bytes: u64 = jobs.iter().map(|j| Volume::stored_bytes(&index, j.log, j.interval.number)).sum();
    println!("{} jobs {n} instr {t:.3}s {bytes} bytes {:.4} bits/instr", jobs.len(), bytes as f64 * 8.0 / n as f64);
    let mut sums = std::collections::BTreeMap::<String, u64>::new();
    for e in std::fs::read_dir(&index).unwrap() { for f in std::fs::read_dir(e.unwrap().path()).unwrap() { let f = f.unwrap(); *sums.entry(f.file_name().into_string().unwrap()).or_default() += f.metadata().unwrap().len(); } }
    println!("{sums:?}");
}
