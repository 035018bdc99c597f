//! Driving gdb's server as gdb does: the task `gdb`.
//!
//! The recording is indexed, if it is not yet. A server in this process answers a client at the other end of a socket pair, which
//! speaks the protocol: it goes to random times and asks for what gdb's commands are made of. A request is timed from its
//! first byte to the stop that answers it, together with the registers that gdb reads then.
//!
//! Invariant: an answer that is not a stop of the expected kind fails the whole task.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use retro_gdbserver::Debuggee;
use retro_query::{Cancel, Direction, Moment, Process, Run};
use serde::Serialize;

use crate::queries::{Latency, Opened, latency, milliseconds};
use crate::random::Random;

/// The moments come from here.
const SEED: u64 = 0x6db;

/// A watchpoint is far back if so many instructions lie in between.
const FAR: u64 = 1_000_000_000;

/// Words that are tried until enough are found whose last write is far back.
const WORDS_TRIED: usize = 2000;

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Answers {
    /// Of the process.
    pub instructions: u64,
    /// Requests of each kind.
    pub requests: u32,
    /// From opening the recording to the answer of the first request.
    pub first_answer_ms: f64,
    /// By kind of request.
    pub latencies: BTreeMap<String, Latency>,
}

/// Asks so many requests of each kind.
pub fn measure(recording: &Path, requests: u32) -> Result<Answers> {
    let Opened { run, log, start, engine: _engine } = Opened::as_served(recording)?;
    let debuggee = Debuggee::open(run, log)?;
    let end = debuggee.last_time();
    debuggee.get_ready(end)?;
    let (ours, theirs) = UnixStream::pair()?;
    let served = debuggee.clone();
    thread::spawn(move || retro_gdbserver::serve(&served, end, theirs.try_clone()?, &theirs));
    let mut client = Client { stream: ours };
    ensure!(client.ask("?")?.starts_with('T'), "no stop at first");
    let first_answer_ms = milliseconds(start);

    let process = &debuggee.process;
    let mut random = Random::new(SEED);
    let mut times = BTreeMap::<String, Vec<f64>>::new();
    let mut note = |kind: &str, taken: f64| times.entry(kind.to_owned()).or_default().push(taken);
    let far = far_writes(&debuggee.run, process, requests as usize, &mut random)?;
    for word in &far {
        client.seek(end)?;
        client.ask(&format!("Z2,{word:x},8"))?;
        note("reverse-continue to a watchpoint, 1 G or more back", client.timed("bc", "watch:")?);
        client.ask(&format!("z2,{word:x},8"))?;
    }
    for _ in 0..requests {
        let span = (process.end - process.start) as usize;
        let time = process.start + random.below(span) as u64;
        client.seek(time)?;
        note("reverse-stepi, the first", client.timed("bs", "T05")?);
        note("reverse-stepi, the next", client.timed("bs", "T05")?);
        note("stepi", client.timed("vCont;s", "T05")?);
        // What finishing backwards is made of: a breakpoint where the function began.
        let thread = debuggee.run.running_thread(Moment { log, time })?;
        if let Some(call) = debuggee.run.enclosing_call(Moment { log, time }, thread)?
            && call.time + 1 < time
        {
            let entry = Moment { log, time: call.time + 1 };
            let pc = debuggee.run.registers(entry, Some(thread))?.pc();
            client.seek(time)?;
            client.ask(&format!("Z0,{pc:x},1"))?;
            note("reverse-continue to the function's begin", client.timed("bc", "swbreak")?);
            client.ask(&format!("z0,{pc:x},1"))?;
        }
    }
    let latencies = times
        .iter()
        .map(|(kind, values)| Ok((kind.clone(), latency(values)?)))
        .collect::<Result<_>>()?;
    let instructions = process.end - process.start;
    Ok(Answers { instructions, requests, first_answer_ms, latencies })
}

/// Words whose last write, seen from the end, is far back, as many as are wanted or can be found.
fn far_writes(run: &Run, process: &Process, most: usize, random: &mut Random) -> Result<Vec<u64>> {
    let end = Moment { log: process.log, time: process.end };
    let volume = process.volumes.first().context("nothing is indexed")?;
    let window = volume.windows.len() / 8;
    let written = volume.words.keys_of(window, 0..1 << 50)?;
    ensure!(!written.is_empty(), "nothing was written");
    let mut found = Vec::new();
    for _ in 0..WORDS_TRIED {
        let word = written[random.below(written.len())].0 * 8;
        let writes = run.writes(end, Direction::Backward, word..word + 8, &Cancel::new())?;
        let last = writes.take(1).next().transpose()?;
        if last.is_some_and(|last| process.end - last.time >= FAR) && !found.contains(&word) {
            found.push(word);
        }
        if found.len() == most {
            break;
        }
    }
    Ok(found)
}

/// A client of the protocol.
struct Client {
    stream: UnixStream,
}

impl Client {
    fn send(&mut self, packet: &str) -> Result<()> {
        let sum = packet.bytes().fold(0u8, u8::wrapping_add);
        Ok(self.stream.write_all(format!("+${packet}#{sum:02x}").as_bytes())?)
    }

    /// The next answer; text for people is none.
    fn receive(&mut self) -> Result<String> {
        let mut byte = [0];
        loop {
            let mut packet = Vec::new();
            loop {
                self.stream.read_exact(&mut byte)?;
                match byte[0] {
                    b'$' => packet.clear(),
                    b'#' => break,
                    other => packet.push(other),
                }
            }
            self.stream.read_exact(&mut [0; 2])?;
            let packet = String::from_utf8_lossy(&packet).into_owned();
            if packet == "OK" || !packet.starts_with('O') {
                return Ok(packet);
            }
        }
    }

    fn ask(&mut self, packet: &str) -> Result<String> {
        self.send(packet)?;
        self.receive()
    }

    /// Milliseconds until the stop, and the registers, that a request leads to.
    fn timed(&mut self, packet: &str, wanted: &str) -> Result<f64> {
        let start = Instant::now();
        let stop = self.ask(packet)?;
        self.ask("g")?;
        let taken = milliseconds(start);
        if !stop.contains(wanted) {
            bail!("{packet} is answered by {stop}, which has no {wanted}");
        }
        Ok(taken)
    }

    fn seek(&mut self, time: u64) -> Result<()> {
        let command: String =
            format!("seek {time}").bytes().map(|byte| format!("{byte:02x}")).collect();
        self.ask(&format!("qRcmd,{command}"))?;
        ensure!(self.ask("bc")?.starts_with('T'), "no stop at {time}");
        Ok(())
    }
}
