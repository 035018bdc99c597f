//! From the first instruction of the engine image to the first instruction of the guest.

use crate::cache::CodeCache;
use crate::context::{ExitKind, Gpr};
use crate::dispatch::{self, Fixed};
use crate::exec::{self, Refused, Resolved};
use crate::loader::{self, Initial, Loaded, Stack};
use crate::maps::{AddressSpace, Backing, HEAP_START, Mapping};
use crate::record;
use crate::signals;
use crate::sys::{self, Errno};
use crate::{entry, syscalls, threads};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::CStr;
use linux_raw_sys::auxvec as aux;
use linux_raw_sys::general as c;
use retro_abi::config::{Config, SharedFile, VARIABLE};
use retro_abi::layout::GUEST_END;
use retro_abi::replay::GUARD;
use retro_abi::stats::Stats;

/// What the guest sees of itself.
pub struct Program {
    /// Path of its executable, ending in NUL.
    pub path: Vec<u8>,
    /// Its auxiliary vector.
    pub auxv: Vec<u8>,
    /// Range of its environment strings.
    pub environment: (u64, u64),
}

impl Program {
    /// A value of its auxiliary vector; 0 if it is not there.
    pub fn auxiliary(&self, key: u32) -> u64 {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let mut pairs = self.auxv.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..])));
        pairs.find(|&(found, _)| found == key as u64).map_or(0, |(_, value)| value)
    }
}

/// Where counts go that nobody reads.
pub static NO_STATS: Stats = Stats::new();

/// What the kernel left on the engine's initial stack.
struct Received {
    arguments: Vec<&'static [u8]>,
    environment: Vec<&'static [u8]>,
    auxv: Vec<(u64, u64)>,
}

impl Received {
    /// # Safety
    /// `stack` is the stack pointer the kernel started the image with.
    unsafe fn read(stack: *const u64) -> Received {
        // SAFETY: the kernel's layout: argc, argv, null, envp, null, auxv pairs up to AT_NULL.
        unsafe {
            let count = *stack as usize;
            let mut at = stack.add(1);
            let text = |at: *const u64| CStr::from_ptr(*at as *const _).to_bytes_with_nul();
            let arguments = (0..count).map(|i| text(at.add(i))).collect();
            at = at.add(count + 1);
            let mut environment = Vec::new();
            while *at != 0 {
                environment.push(text(at));
                at = at.add(1);
            }
            at = at.add(1);
            let mut auxv = Vec::new();
            while *at != 0 {
                auxv.push((*at, *at.add(1)));
                at = at.add(2);
            }
            Received { arguments, environment, auxv }
        }
    }

    fn auxiliary(&self, key: u32) -> Option<u64> {
        self.auxv.iter().find(|&&(k, _)| k == key as u64).map(|&(_, v)| v)
    }
}

/// Says what is wrong and gives up, with the exit status a shell would use.
fn refuse(name: &[u8], error: Errno) -> ! {
    let name = core::str::from_utf8(name).unwrap_or("?").trim_end_matches('\0');
    let (status, why) = match error {
        Errno::ENOENT => (127, "No such file or directory"),
        Errno::EACCES => (126, "Permission denied"),
        Errno::ENOEXEC => (
            126,
            "cannot execute: Exec format error (neither a 64-bit x86-64 program nor a #! script)",
        ),
        Errno::ELIBBAD => {
            (126, "cannot execute: its program interpreter is not a valid x86-64 ELF file")
        }
        Errno::ELOOP => (126, "Too many levels of #! interpreters or symbolic links"),
        Errno::ENOMEM => (126, "Cannot allocate memory"),
        Errno::E2BIG => (126, "Argument list too long"),
        Errno::ENOTDIR => (127, "Not a directory"),
        _ => (126, "cannot execute"),
    };
    sys::complain(format_args!("{name}: {why}"));
    sys::exit_group(status)
}

/// First Rust code of the image.
///
/// # Safety
/// `stack` is the stack pointer the kernel started the image with; called once.
pub unsafe fn start(stack: *const u64) -> ! {
    // The kernel has chosen the stack's place at random.
    sys::scatter_mappings(stack as u64);
    // SAFETY: passed on.
    let mut received = unsafe { Received::read(stack) };
    let variable = received.environment.pop();
    let config = variable
        .and_then(|v| v.strip_prefix(VARIABLE.as_bytes()))
        .and_then(|v| Config::parse(&v[..v.len() - 1]).ok());
    let Some(mut config) = config else {
        sys::complain(format_args!(
            "this is the engine of `retro`; start programs with `retro run`"
        ));
        sys::exit_group(125)
    };
    if config.policy == retro_abi::config::Policy::Replay && config.path == GUARD {
        crate::replay::guard::run();
    }
    crate::vectors::detect();
    crate::ptrace::set_entry_point(received.auxiliary(aux::AT_ENTRY).unwrap_or(0));
    find_template(&received);
    if config.policy == retro_abi::config::Policy::Replay {
        crate::replay::start(&config);
    }
    let (resolved, own_arguments) = resolve(&config, &received);
    let leading: Vec<&[u8]> = resolved.leading.iter().map(|s| &s[..]).collect();
    let skip = if leading.is_empty() { 0 } else { 1 };
    let mut arguments = leading;
    arguments.extend(own_arguments.iter().skip(skip));

    syscalls::limits::adopt();
    syscalls::supervision::adopt(config.supervised);
    let path = executable_path(resolved.fd, &resolved.name);
    if config.policy == retro_abi::config::Policy::Record {
        let program = record::process::Program {
            path: &path,
            arguments: &arguments,
            environment: &received.environment,
        };
        begin_recording(&mut config, &program);
    }
    let (stack_limit, _) = sys::resource_limit(c::RLIMIT_STACK);
    let mut space = AddressSpace::new(stack_limit);
    reserve_vdso(&mut space, &received);
    let (program, interpreter) = load(&mut space, &resolved);
    let initial = Initial {
        arguments: &arguments,
        environment: &received.environment,
        own_auxv: &received.auxv,
        name: &resolved.name,
        program: &program,
        interpreter: interpreter.as_ref(),
        random: random_bytes(&received),
    };
    let stack = loader::build_stack(&mut space, &initial).unwrap_or_else(|e| refuse(&path, e));
    announce(&stack, &resolved.name);
    let entry_point = interpreter.as_ref().map_or(program.entry, |i| i.entry);

    let mut cache = CodeCache::new(config.cache_kib.map(|kib| kib as u64 * 1024))
        .unwrap_or_else(|e| refuse(b"code cache", e));
    if record::watching() {
        cache.keep_clock(record::process::keeping());
    }
    let stats = config.stats.and_then(map_stats);
    let environment = stack.environment;
    let fixed = Fixed {
        events: dispatch::events_of(config.policy),
        stats: stats.unwrap_or(&NO_STATS),
        counting: stats.is_some(),
        policy: config.policy,
        stats_file: config.stats,
        cache_kib: config.cache_kib,
        program: Program { path, auxv: stack.auxv, environment },
    };
    if fixed.counting && config.exe_fd.is_none() {
        Stats::add(&fixed.stats.processes, 1);
        Stats::add(&fixed.stats.threads, 1);
    }
    dispatch::install(cache, space, HEAP_START, fixed);

    let inherited = sys::set_signal_mask(!0);
    let mask = config.signal_mask.unwrap_or(inherited);
    let handlers = Arc::new(signals::initial_handlers());
    let context = threads::allocate(handlers, mask).unwrap_or_else(|e| refuse(b"thread", e));
    threads::adopt(context);
    syscalls::seccomp::adopt(context, config.filters);
    context.registers.set(Gpr::Rsp, stack.pointer);
    context.registers.rip = entry_point;
    context.registers.rflags = 0x202;
    context.exit_kind = ExitKind::Continue as u32;
    let context =
        if record::watching() { record::process::begin_first_thread(context) } else { context };
    signals::set_mask(context, mask);
    crate::clock::ready(context);
    crate::ptrace::tracee::starts(context);
    // SAFETY: GS points behind the context; the initial stack is not used again.
    unsafe { entry::start() }
}

/// Starts the log. A child that cannot have one runs on without; the first program does not start.
fn begin_recording(config: &mut Config<'static>, program: &record::process::Program) {
    let Err(error) = record::process::begin(config, program) else { return };
    if config.previous.is_some() {
        config.policy = retro_abi::config::Policy::Run;
        return;
    }
    sys::complain(format_args!(
        "cannot record: no memory for the shadow or no access to the recorder (error {}); \
         check `ulimit -v` and vm.overcommit_memory",
        error.0
    ));
    sys::exit_group(125)
}

/// The program to load, from the descriptor of an earlier engine or from its path.
fn resolve(config: &Config<'static>, received: &Received) -> (Resolved, Vec<&'static [u8]>) {
    let mut name = config.path.to_vec();
    name.push(0);
    let own_arguments = received.arguments.clone();
    if let Some(fd) = config.exe_fd {
        return (Resolved { fd, name, leading: Vec::new() }, own_arguments);
    }
    match exec::resolve(c::AT_FDCWD, &name, 0) {
        Ok(resolved) => (resolved, own_arguments),
        Err(Refused::Error(error)) => refuse(&name, error),
        Err(Refused::Native) => {
            let pointers = |texts: &[&[u8]]| {
                let mut all: Vec<u64> = texts.iter().map(|t| t.as_ptr() as u64).collect();
                all.push(0);
                all
            };
            let (argv, envp) = (pointers(&own_arguments), pointers(&received.environment));
            let args = [name.as_ptr() as u64, argv.as_ptr() as u64, envp.as_ptr() as u64, 0, 0, 0];
            // SAFETY: returns only on failure.
            let result = sys::check(unsafe { sys::syscall(c::__NR_execve, args) });
            refuse(&name, result.err().unwrap_or(Errno::ENOEXEC))
        }
    }
}

fn load(space: &mut AddressSpace, resolved: &Resolved) -> (Loaded, Option<Loaded>) {
    let name = &resolved.name;
    let program = loader::load(space, resolved.fd).unwrap_or_else(|e| refuse(name, e));
    sys::close(resolved.fd);
    let interpreter = program.executable.interpreter.as_ref().map(|path| {
        let fd = sys::open(path, c::O_RDONLY | c::O_CLOEXEC, 0).unwrap_or_else(|e| refuse(path, e));
        let loaded = loader::load(space, fd).unwrap_or_else(|e| refuse(path, e));
        sys::close(fd);
        loaded
    });
    (program, interpreter)
}

/// With an unlimited stack the kernel puts the vDSO into the guest's range. It stays hidden, but nothing is
/// to be placed over it.
fn reserve_vdso(space: &mut AddressSpace, received: &Received) {
    const AROUND: u64 = 64 << 10;
    let Some(at) = received.auxiliary(aux::AT_SYSINFO_EHDR).filter(|&at| at < GUEST_END) else {
        return;
    };
    let (start, end) = (at - AROUND, at + AROUND);
    space.insert(Mapping { start, end, prot: 0, backing: Backing::Shared });
}

/// What `/proc/self/exe` would say.
fn executable_path(fd: i32, name: &[u8]) -> Vec<u8> {
    let link = alloc::format!("/proc/self/fd/{fd}\0");
    let mut buffer = [0u8; 4096];
    let mut path = match sys::read_link(link.as_bytes(), &mut buffer[..4095]) {
        Ok(path) => path.to_vec(),
        Err(_) => name[..name.len() - 1].to_vec(),
    };
    path.push(0);
    path
}

fn random_bytes(received: &Received) -> [u8; 16] {
    let mut bytes = [0; 16];
    if let Some(at) = received.auxiliary(aux::AT_RANDOM) {
        // SAFETY: the kernel put 16 random bytes there.
        bytes = unsafe { *(at as *const [u8; 16]) };
    }
    bytes
}

/// Tells the kernel what others should see of this process: its name, arguments and environment.
fn announce(stack: &Stack, name: &[u8]) {
    use linux_raw_sys::prctl as p;
    let base = name.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    let _ = sys::prctl(p::PR_SET_NAME, name[base..].as_ptr() as u64, 0, 0);
    /// `struct prctl_mm_map`
    #[repr(C)]
    struct MemoryMap {
        addresses: [u64; 11],
        auxv: u64,
        auxv_size: u32,
        exe_fd: i32,
    }
    // start_code, end_code, start_data, end_data, start_brk, brk, start_stack, arg_start, arg_end,
    // env_start, env_end. Code and data only have to be plausible.
    let somewhere = stack.pointer;
    let map = MemoryMap {
        addresses: [
            somewhere,
            somewhere + 1,
            somewhere,
            somewhere + 1,
            somewhere,
            somewhere,
            stack.pointer,
            stack.arguments.0,
            stack.arguments.1,
            stack.environment.0,
            stack.environment.1,
        ],
        auxv: stack.auxv_at,
        auxv_size: stack.auxv.len() as u32,
        exe_fd: -1,
    };
    // Best effort: without it only observers see the engine's own strings.
    let size = size_of::<MemoryMap>() as u64;
    let _ = sys::prctl(p::PR_SET_MM, p::PR_SET_MM_MAP as u64, &raw const map as u64, size);
}

fn map_stats(file: SharedFile) -> Option<&'static Stats> {
    let path = alloc::format!("/proc/{}/fd/{}\0", file.pid, file.fd);
    let fd = sys::open(path.as_bytes(), c::O_RDWR | c::O_CLOEXEC, 0).ok()?;
    let at = sys::map_shared(size_of::<Stats>() as u64, fd);
    sys::close(fd);
    // SAFETY: page-aligned shared memory of that size, never unmapped; all its fields are atomics.
    at.ok().map(|at| unsafe { &*(at as *const Stats) })
}

/// Finds the branch-table template in the image file, through the program headers the kernel points to.
#[cfg(feature = "image")]
fn find_template(received: &Received) {
    let (Some(at), Some(count)) =
        (received.auxiliary(aux::AT_PHDR), received.auxiliary(aux::AT_PHNUM))
    else {
        return;
    };
    let template = entry::table_template();
    for index in 0..count {
        // SAFETY: the kernel mapped the image's program headers there; seven words each.
        let header = unsafe { *((at + index * 56) as *const [u64; 7]) };
        let (kind, offset, address, file_len) = (header[0] as u32, header[1], header[2], header[4]);
        if kind == 1 && (address..address + file_len).contains(&template) {
            threads::set_template_offset(offset + template - address);
        }
    }
}

#[cfg(not(feature = "image"))]
fn find_template(_: &Received) {}
