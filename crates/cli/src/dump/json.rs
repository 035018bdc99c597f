//! One event as a JSON object on one line.
//!
//! Addresses and contents of registers are strings of hexadecimal digits: many readers of JSON keep numbers as
//! floating point, which has no room for them. Times and counts are numbers.

use retro_abi::log::{Event, MapKind, RegisterSet, register};
use serde_json::{Map, Value, json};

use super::bytes::hexadecimal;
use super::signals::SignalInfo;
use super::{calls, text};
use crate::info::strings;
use crate::wording;
use retro_recording::ProcessEnd;

/// The object, without an end of line. `shown` is the number of bytes of memory to show.
pub fn object(log: u64, time: u64, thread: Option<u32>, event: &Event, shown: usize) -> String {
    let mut object = Map::new();
    object.insert("log".into(), log.into());
    object.insert("time".into(), time.into());
    object.insert("thread".into(), thread.into());
    object.insert("kind".into(), event.kind().name().into());
    if let Value::Object(fields) = fields(event, shown) {
        object.extend(fields);
    }
    Value::Object(object).to_string()
}

fn fields(event: &Event, shown: usize) -> Value {
    let hex = |value: u64| format!("{value:#x}");
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match *event {
        Event::Load { address, bytes }
        | Event::Write { address, bytes }
        | Event::Code { address, bytes } => json!({
            "address": hex(address),
            "length": bytes.len(),
            "bytes": hexadecimal(bytes, shown),
        }),
        Event::SyscallEnter { number, args, .. } => json!({
            "number": number,
            "name": calls::name(number),
            "arguments": args.map(hex),
        }),
        Event::SyscallExit { result } => json!({ "result": result.cast_signed() }),
        Event::Registers(ref set) => json!({ "registers": registers(set) }),
        Event::Vectors { image } => json!({
            "length": image.len(),
            "bytes": hexadecimal(image, shown),
        }),
        Event::Signal { number, synchronous, handler, info, .. } => {
            let details = SignalInfo::new(info);
            json!({
                "number": number,
                "name": wording::signal(number),
                "synchronous": synchronous,
                "handler": (handler != 0).then(|| hex(handler)),
                "code": details.code(),
                "code_name": details.code_name(number),
                "address": details.address(number).map(hex),
                "sender": details.sender(number),
                "info": hexadecimal(info, shown),
            })
        }
        Event::Map { kind, start, len, prot, flags, file, offset } => json!({
            "change": change(kind),
            "start": hex(start),
            "length": len,
            "protection": prot,
            "flags": flags,
            "file": file.checked_sub(1),
            "offset": hex(offset),
        }),
        Event::ThreadStart { thread } | Event::ThreadSwitch { thread, .. } => {
            json!({ "to": thread })
        }
        Event::ThreadEnd { thread, code } => json!({ "of": thread, "code": code }),
        Event::Interval { number, running, threads } => json!({
            "number": number,
            "running": running,
            "threads": threads,
        }),
        Event::ThreadState { thread, in_syscall, registers: ref set, image } => json!({
            "of": thread,
            "in_syscall": in_syscall.checked_sub(1),
            "registers": registers(set),
            "vectors": hexadecimal(image, shown),
        }),
        Event::Fork { pid, log } => json!({ "pid": pid, "child_log": log.checked_sub(1) }),
        Event::Start {
            pid,
            parent,
            origin,
            seconds,
            nanoseconds,
            path,
            arguments,
            environment,
            directory,
        } => json!({
            "pid": pid,
            "parent": parent,
            "origin": text::origin(origin),
            "seconds": seconds,
            "nanoseconds": nanoseconds,
            "path": lossy(path),
            "arguments": strings(arguments).map(lossy).collect::<Vec<_>>(),
            "environment": strings(environment).map(lossy).collect::<Vec<_>>(),
            "directory": lossy(directory),
        }),
        Event::End { how, code } => json!({
            "how": wording::process_end(ProcessEnd::from_numbers(how, code)),
            "code": code,
        }),
        Event::File {
            number,
            device,
            inode,
            size,
            modified_seconds,
            modified_nanoseconds,
            build_id,
            path,
        } => json!({
            "number": number,
            "device": device,
            "inode": inode,
            "size": size,
            "modified_seconds": modified_seconds,
            "modified_nanoseconds": modified_nanoseconds,
            "build_id": hexadecimal(build_id, usize::MAX),
            "path": lossy(path),
        }),
        Event::Inherit { log, time } => json!({ "from_log": log, "up_to": time }),
        Event::MemorySum { start, len, sum } => json!({
            "start": hex(start),
            "length": len,
            "sum": format!("{sum:016x}"),
        }),
    }
}

fn registers(set: &RegisterSet) -> Map<String, Value> {
    let named = register::NAMES.iter().zip(set.values).enumerate();
    named
        .filter(|(number, _)| set.mask & 1 << number != 0)
        .map(|(_, (name, value))| (name.to_string(), format!("{value:#x}").into()))
        .collect()
}

fn change(kind: MapKind) -> &'static str {
    match kind {
        MapKind::Map => "map",
        MapKind::Unmap => "unmap",
        MapKind::Protect => "protect",
        MapKind::Discard => "discard",
        MapKind::Move => "move",
    }
}
