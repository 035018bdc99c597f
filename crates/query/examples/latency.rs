use retro_query::*;
use std::time::Instant;
fn main() {
    let mut a = std::env::args().skip(1);
    let dir = a.next().unwrap();
    let engine = std::path::PathBuf::from(a.next().unwrap());
    let log: u64 = a.next().unwrap().parse().unwrap();
    let n: usize = a.next().unwrap().parse().unwrap();
    let recording = retro_recording::Recording::open(std::path::Path::new(&dir)).unwrap();
    let t = Instant::now();
    let run = Run::open(recording, engine, Options { warm_up: true, trace_memory: 1, ..Options::default() }).unwrap();
    let o = retro_index::build::Options::default();
    let index = std::path::Path::new(&dir).join("index");
    let jobs = retro_index::build::jobs(run.replayer(), &index, &o).unwrap();
    if !jobs.is_empty() {
        let t = Instant::now();
        retro_index::build::build(run.replayer(), &index, &jobs, &o, &retro_index::build::Unwatched).unwrap();
        println!("built in {:?}", t.elapsed());
    }
    let p = run.process(log).unwrap();
    println!("opened {:?}, volumes {} pieces {}", t.elapsed(), p.volumes.len(), p.volumes.iter().map(|v| v.pieces.len()).sum::<usize>());
    let c = Cancel::new();
    let mut seed = 0x9e3779b97f4a7c15u64;
    let mut rnd = |n: u64| { seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407); (seed >> 20) % n };
    // warm both templates
    let _ = run.registers(Moment { log, time: p.start + 5 }, None).unwrap();
    let _ = run.trace(&p, p.window_of(p.start).unwrap()).unwrap();
    let secs: u64 = a.next().map_or(8, |s| s.parse().unwrap());
    std::thread::sleep(std::time::Duration::from_secs(secs));
    let mut times: Vec<u64> = (0..n).map(|_| p.start + rnd(p.end - p.start)).collect();
    times.sort(); for i in (1..n).rev() { let j = rnd(i as u64 + 1) as usize; times.swap(i, j); }
    let measure = |name: &str, f: &mut dyn FnMut(u64)| {
        let mut all: Vec<f64> = times.iter().map(|&t| { let b = Instant::now(); f(t); b.elapsed().as_secs_f64() * 1e3 }).collect();
        all.sort_by(f64::total_cmp);
        println!("{name:20} median {:.2} p95 {:.2} max {:.2} ms", all[n / 2], all[n * 95 / 100], all[n - 1]);
    };
    measure("registers", &mut |t| { run.registers(Moment { log, time: t }, None).unwrap(); });
    measure("trace", &mut |t| { run.trace(&p, p.window_of(t).unwrap()).unwrap(); });
    let mut words = Vec::new();
    for v in &p.volumes { for w in [0, v.windows.len() / 2] { for (k, _) in v.words.keys_of(w, 0..1 << 50).unwrap().into_iter().step_by(97) { words.push(k * 8); } } }
    let mut i = 0;
    measure("last-write", &mut |t| { i += 1; let a = words[(i * 7919) % words.len()]; run.last_write(Moment { log, time: t }, a..a + 8, &c).unwrap(); });
    let mut pcs = Vec::new();
    for v in &p.volumes { pcs.extend(v.pieces.entries().step_by(13)); }
    measure("last-execution", &mut |t| { i += 1; let a = pcs[(i * 7919) % pcs.len()]; let _ = run.executions(Moment { log, time: t }, Direction::Backward, &[a], &c).unwrap().next().transpose().unwrap(); });
    measure("100th execution", &mut |t| { i += 1; let a = pcs[(i * 7919) % pcs.len()]; let _ = run.nth_execution(Moment { log, time: t }, Direction::Backward, a, 100, &c).unwrap(); });
    measure("memory 64", &mut |t| { i += 1; let a = words[(i * 7919) % words.len()]; let _ = run.memory(Moment { log, time: t }, a, 64).unwrap(); });
    measure("stack", &mut |t| { let s = run.state(Moment { log, time: t }).unwrap(); let s = s.stack(None, 1000).unwrap(); assert!(!s.frames().is_empty()); });
    measure("step over", &mut |t| { let m = Moment { log, time: t }; let th = run.trace(&p, p.window_of(t).unwrap()).unwrap().thread_at(t); run.step(m, th, Unit::Instruction, Calls::Over, Direction::Forward, &c).unwrap(); });
    measure("step out", &mut |t| { let m = Moment { log, time: t }; let th = run.trace(&p, p.window_of(t).unwrap()).unwrap().thread_at(t); run.step(m, th, Unit::Instruction, Calls::Out, Direction::Forward, &c).unwrap(); });
    measure("enclosing", &mut |t| { let m = Moment { log, time: t }; let th = run.trace(&p, p.window_of(t).unwrap()).unwrap().thread_at(t); run.enclosing_call(m, th).unwrap(); });
    measure("syscall before", &mut |t| { let _ = run.rows(Moment { log, time: t }, Direction::Backward, RowFilter::Class(RowClass::Syscall), &c).unwrap().next().transpose().unwrap(); });
    measure("maps", &mut |t| { run.maps(Moment { log, time: t }).unwrap(); });
}
