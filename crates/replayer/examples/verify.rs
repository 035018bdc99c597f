//! Replays every interval of every log of a recording.
use retro_recording::Recording;
use retro_replayer::{Verdict, intervals, replay};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;

fn main() -> anyhow::Result<()> {
    let engine = std::env::temp_dir().join(format!("retro-engine-{}", std::process::id()));
    std::fs::write(&engine, retro_engine_image::ENGINE_IMAGE)?;
    std::fs::set_permissions(&engine, std::fs::Permissions::from_mode(0o700))?;
    let _ = std::io::stdin().as_raw_fd();
    let mut bad = 0;
    for path in std::env::args().skip(1) {
        let recording = Recording::open(std::path::Path::new(&path))?;
        for process in recording.processes() {
            let log = process.summary.log;
            for (number, segments) in intervals(&recording, log) {
                let start = std::time::Instant::now();
                let done = replay(&recording, log, &segments, &engine)?;
                if done.verdict != Verdict::Same || std::env::var_os("V").is_some() {
                    println!(
                        "{path} log {log} interval {number}: {done:x?} final {} {:?}",
                        process.summary.time,
                        start.elapsed()
                    );
                }
                bad += (done.verdict != Verdict::Same) as usize;
            }
        }
    }
    std::fs::remove_file(&engine)?;
    println!("{bad} bad");
    std::process::exit((bad > 0) as i32)
}
