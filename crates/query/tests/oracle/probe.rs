//! Temporary.
use crate::recorded::{Recorded, windows_of};

#[test]
fn probe() {
    let recorded = Recorded::guest("flow_exceptions", &[]);
    recorded.build(&windows_of(2000)).unwrap();
    let log = *recorded.logs().last().unwrap();
    let run = recorded.open();
    let process = run.process(log).unwrap();
    let volume = &process.volumes[0];
    let mut stepping = recorded.replayer.session(log, volume.interval).unwrap();
    let mut truth = Vec::new();
    while stepping.time() < 9000.min(volume.end) {
        let r = stepping.registers(None).unwrap();
        truth.push((r.general[16], r.general[17]));
        stepping.step().unwrap();
    }
    println!("log {log} {} instructions", truth.len());
    for window in 0..volume.windows.len() {
        let snapshot = volume.windows.snapshot(window).unwrap().unwrap();
        let Some(t) = truth.get((snapshot.time - volume.start) as usize) else { continue };
        let g = &snapshot.threads[0].general;
        if (g[16], g[17]) != *t { println!("snapshot {window} at {}: {:x} {:x?}", snapshot.time, g[17], t); }
    }
    let mut counts = [0; 4];
    for t in (volume.start..volume.start + truth.len() as u64).step_by(37) {
        let expected = truth[(t - volume.start) as usize];
        let mut plain = recorded.replayer.session(log, volume.interval).unwrap();
        plain.run_to(t).unwrap();
        let r = plain.registers(None).unwrap();
        counts[0] += 1;
        if (r.general[16], r.general[17]) != expected { counts[1] += 1; println!("plain at {t}: {:x} {:x?}", r.general[17], expected); }
        let window = volume.window_of(t);
        let mut w = recorded.replayer.session_from(log, volume.interval, volume.start_of(window).unwrap()).unwrap();
        w.run_to(t).unwrap();
        let r = w.registers(None).unwrap();
        if (r.general[16], r.general[17]) != expected { counts[2] += 1; println!("window at {t}: {:x} {:x?}", r.general[17], expected); }
        let r = run.registers(retro_query::Moment { log, time: t }, None).unwrap();
        if (r.general[16], r.general[17]) != expected { counts[3] += 1; println!("query at {t}: {:x} {:x?}", r.general[17], expected); }
    }
    panic!("{counts:?}");
}
