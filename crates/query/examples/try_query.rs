use retro_query::*;
use retro_query::symbols::*;
use std::time::Instant;
fn main() {
    let mut a = std::env::args().skip(1);
    let dir = a.next().unwrap();
    let engine = std::path::PathBuf::from(a.next().unwrap());
    let func = a.next().unwrap();
    let expr = a.next().unwrap();
    let recording = retro_recording::Recording::open(std::path::Path::new(&dir)).unwrap();
    let run = Run::open(recording, engine, Options::default()).unwrap();
    let o = retro_index::build::Options { window_size: 20_000, ..Default::default() };
    let index = std::path::Path::new(&dir).join("index");
    let jobs = retro_index::build::jobs(run.replayer(), &index, &o).unwrap();
    retro_index::build::build(run.replayer(), &index, &jobs, &o, &retro_index::build::Unwatched).unwrap();
    let p = run.process(0).unwrap();
    println!("{}..{}", p.start, p.end);
    let c = Cancel::new();
    let end = Moment { log: 0, time: p.end };
    let state = run.state(end).unwrap();
    let stack = state.stack(None, 100).unwrap();
    for f in stack.frames() { println!("  {:#x} {:?} {:?} inl {} guess {}", f.pc, f.function, f.source.as_ref().map(|s| s.to_string()), f.is_inlined, f.is_guessed); }
    for f in run.symbols().functions_named(0, p.end, &func) {
        println!("{} {:#x} body {:#x} {:?}", f.name, f.entry, f.body, f.source);
        let t = Instant::now();
        let hits: Vec<_> = run.executions(end, Direction::Backward, &[f.entry], &c).unwrap().take(5).collect::<Result<_, _>>().unwrap();
        println!("{hits:?} {:?} count {}", t.elapsed(), run.count_executions(end, f.entry).unwrap());
        for h in &hits {
            let m = Moment { log: 0, time: h.time };
            println!("args {:?}", run.arguments_at(m, h.thread, &FormatOptions::default()).unwrap().iter().map(|n| format!("{}={}", n.name, n.value)).collect::<Vec<_>>());
            println!("  ends {:?} enclosing {:?} depth {}", run.end_of_frame(m, h.thread).unwrap(), run.enclosing_call(m, h.thread).unwrap(), run.depth(m, h.thread).unwrap());
        }
        if let Some(h) = hits.last() {
            let mut m = Moment { log: 0, time: h.time };
            for _ in 0..12 {
                let s = run.symbols().place(0, m.time, run.state(m).unwrap().pc().unwrap());
                println!("step {} {s}", m.time);
                match run.step(m, h.thread, Unit::Line, Calls::Into, Direction::Forward, &c).unwrap() { Some(n) => m = n, None => break }
            }
            println!("-- back over");
            for _ in 0..12 {
                let s = run.symbols().place(0, m.time, run.state(m).unwrap().pc().unwrap());
                println!("step {} {s}", m.time);
                match run.step(m, h.thread, Unit::Line, Calls::Over, Direction::Backward, &c).unwrap() { Some(n) => m = n, None => break }
            }
            let st = run.state(m).unwrap();
            let stack = st.stack(None, 100).unwrap();
            for (i, f) in stack.frames().iter().enumerate() {
                println!("#{i} {:?} {:?}", f.function, f.source.as_ref().map(|s| s.to_string()));
                println!("   args {:?}", stack.arguments(i, &FormatOptions::default(), &c).map(|v| v.iter().map(|n| format!("{}={}", n.name, n.value)).collect::<Vec<_>>()));
                println!("   locals {:?}", stack.locals(i, &FormatOptions::default()).map(|v| v.iter().map(|n| format!("{}={}", n.name, n.value)).collect::<Vec<_>>()));
            }
        }
    }
    match stack.memory_of(0, &expr) { Ok(r) => { println!("{expr} at {r:x?}"); 
        println!("= {:?}", stack.evaluate(0, &expr, &FormatOptions::default(), &TreeOptions::default()).map(|e| e.text));
        for w in run.writes(end, Direction::Backward, r, &c).unwrap().take(3) { let w = w.unwrap(); println!("{w:?} {}", run.symbols().place(0, w.time, w.pc)); } } Err(e) => println!("{e}") }
}
