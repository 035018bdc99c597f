//! Programs that are compiled here, and recordings that say where they were mapped.

// Each test is a program of its own and uses some of it.
#![allow(dead_code)]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags};
use retro_abi::channel::Stream;
use retro_abi::log::{Encoder, Event, MAX_FIXED, MapKind, Relative};
use retro_recording::{
    ChunkHead, DEFAULT_LEVEL, Head, Recording, RunEnd, Writer, encode_chunk, encode_end,
};
use tempfile::TempDir;

pub struct Scene {
    place: TempDir,
    names: AtomicUsize,
}

/// A file that can be mapped.
#[derive(Clone)]
pub struct Program {
    pub path: PathBuf,
    pub build_id: Vec<u8>,
    pub size: u64,
    pub modified: (i64, i64),
}

/// A chunk of a log.
pub struct Chunk<'a> {
    pub log: u64,
    pub stream: Stream,
    pub base_time: u64,
    pub events: Vec<(u64, Event<'a>)>,
}

impl Scene {
    pub fn new() -> Scene {
        Scene { place: TempDir::new().unwrap(), names: AtomicUsize::new(0) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Compiles a program with these options.
    #[track_caller]
    pub fn compile(&self, name: &str, source: &str, options: &[&str]) -> Program {
        let compiler = match name.rsplit('.').next() {
            Some("cpp") => "g++",
            Some("rs") => "rustc",
            _ => "gcc",
        };
        fs::write(self.path(name), source).unwrap();
        let program = self.path(name).with_extension("");
        let mut command = Command::new(compiler);
        command.current_dir(self.place.path()).arg(name).args(options).arg("-o").arg(&program);
        assert!(command.status().unwrap().success());
        Program::at(&program)
    }

    /// A name that nothing has yet.
    pub fn fresh_name(&self) -> String {
        format!("run-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    #[track_caller]
    pub fn run(&self, command: &[&str]) {
        let mut process = Command::new(command[0]);
        assert!(
            process.current_dir(self.place.path()).args(&command[1..]).status().unwrap().success()
        );
    }

    pub fn record(&self, name: &str, chunks: &[Chunk]) -> Arc<Recording> {
        let directory = self.path(name);
        let mut writer = Writer::create(&directory, &Head::default()).unwrap();
        for (index, chunk) in chunks.iter().enumerate() {
            let same = |other: &&Chunk| (other.log, other.stream) == (chunk.log, chunk.stream);
            let sequence = chunks[..index].iter().filter(same).count() as u64;
            let mut bytes = Vec::new();
            let mut relative = Relative::at(chunk.base_time);
            for (time, event) in &chunk.events {
                let mut room = vec![0; MAX_FIXED + 8192];
                let length = Encoder::new(&mut room).event(*time, event, &mut relative);
                bytes.extend_from_slice(&room[..length]);
            }
            let Chunk { log, stream, base_time, .. } = *chunk;
            let head = ChunkHead { log, stream, sequence, base_time, interval: 0 };
            writer.append(&encode_chunk(head, &bytes, DEFAULT_LEVEL).unwrap()).unwrap();
        }
        writer.append(&encode_end(&RunEnd::default())).unwrap();
        Arc::new(Recording::open(&directory).unwrap())
    }

    /// A recording of a process that maps a program at `base` and does nothing else.
    pub fn record_mapped(&self, name: &str, program: &Program, base: u64) -> Arc<Recording> {
        let files = Chunk {
            log: 0,
            stream: Stream::Code,
            base_time: 0,
            events: vec![(0, program.event(0))],
        };
        let maps = program.maps(base, 1).into_iter().map(|event| (0, event)).collect();
        let main = Chunk { log: 0, stream: Stream::Main, base_time: 0, events: maps };
        self.record(name, &[files, main])
    }
}

impl Program {
    pub fn at(path: &Path) -> Program {
        let metadata = fs::metadata(path).unwrap();
        let contents = fs::read(path).unwrap();
        let build_id = object::File::parse(&*contents)
            .ok()
            .and_then(|elf| Some(elf.build_id().ok()??.to_vec()))
            .unwrap_or_default();
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Program { path: path.to_path_buf(), build_id, size: metadata.len(), modified }
    }

    pub fn event(&self, number: u64) -> Event<'_> {
        Event::File {
            number,
            device: 1,
            inode: 2,
            size: self.size,
            modified_seconds: self.modified.0,
            modified_nanoseconds: self.modified.1 as u32,
            build_id: &self.build_id,
            path: self.path.as_os_str().as_bytes(),
        }
    }

    /// The mappings that load it at `base`, as the kernel makes them.
    pub fn maps(&self, base: u64, file: u64) -> Vec<Event<'static>> {
        const PAGE: u64 = 4096;
        let contents = fs::read(&self.path).unwrap();
        let elf = object::File::parse(&*contents).unwrap();
        let mut maps = Vec::new();
        for segment in elf.segments() {
            let (offset, size) = segment.file_range();
            let first = offset & !(PAGE - 1);
            let start = base + (segment.address() & !(PAGE - 1));
            let end = start + (offset - first + size).next_multiple_of(PAGE);
            let memory_end = base + (segment.address() + segment.size()).next_multiple_of(PAGE);
            let SegmentFlags::Elf { p_flags } = segment.flags() else { panic!("not ELF") };
            let prot = (p_flags & 4) >> 2 | p_flags & 2 | (p_flags & 1) << 2;
            maps.push(map(start, end - start, prot, file, first));
            if memory_end > end {
                maps.push(map(end, memory_end - end, prot, 0, 0));
            }
        }
        maps
    }

    /// The address of a symbol in the file.
    #[track_caller]
    pub fn symbol(&self, name: &str) -> u64 {
        let contents = fs::read(&self.path).unwrap();
        let elf = object::File::parse(&*contents).unwrap();
        let symbol = elf.symbols().find(|symbol| symbol.name() == Ok(name));
        symbol.unwrap_or_else(|| panic!("no symbol {name}")).address()
    }
}

pub fn map(start: u64, len: u64, prot: u32, file: u64, offset: u64) -> Event<'static> {
    Event::Map { kind: MapKind::Map, start, len, prot, flags: 2, file, offset }
}

pub fn unmap(start: u64, len: u64) -> Event<'static> {
    Event::Map { kind: MapKind::Unmap, start, len, prot: 0, flags: 0, file: 0, offset: 0 }
}
