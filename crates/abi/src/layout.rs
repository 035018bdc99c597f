//! The address-space plan: who owns which part of the 47-bit user half.
//!
//! ```text
//! 0                 0x1_0000   lowest address the guest may map
//! 0x1000_0000    .. 0x7f00_0000   modules: executables, ld.so, file mappings (low 2 GiB)
//! 0x8000_0000    .. GUEST_END     everything else of the guest, top down; the stack at the top
//! GUEST_END      .. GUEST_LIMIT   nothing by itself; what a guest insists on, while no shadow is kept
//! SHADOW_DISTANCE .. + GUEST_END  the shadow of guest memory (GS base while recording); the context and the
//!                                 branch table of the running thread lie right below
//! ISLAND_START   .. ISLAND_END    what a guest may insist on while a shadow is kept, too
//! ENGINE_BASE    ..               engine image, code cache and tables
//! CACHE_BASE     ..               within 2 GiB of the engine, so both reach each other by rel32
//! COUNTERS_BASE  ..               how often blocks were executed, in a replay that counts that
//! above                           what the kernel placed: the initial stack, engine mappings
//! ```
//!
//! Invariants: no guest mapping lies at or above [`GUEST_LIMIT`]; nothing of the engine lies below it. The
//! engine places guest mappings below [`GUEST_END`] only; beyond it are those at addresses that the guest
//! itself demands, as AddressSanitizer's allocator does.

/// One past the last address that the engine gives to the guest (24 TiB): room for AddressSanitizer's
/// shadow and Go's reservations, and small enough for a whole shadow of ours above it.
pub const GUEST_END: u64 = 0x1800_0000_0000;

/// AddressSanitizer's allocator insists on these addresses; their shadow, at the same distance as any
/// other, is still in user space.
pub const ISLAND_START: u64 = 0x6000_0000_0000;
/// One past the last of them.
pub const ISLAND_END: u64 = 0x6600_0000_0000;

/// One past the last address that the guest may demand while no shadow is kept.
pub const GUEST_LIMIT: u64 = 0x6f00_0000_0000;

/// Lowest address handed out or accepted for guest mappings.
pub const GUEST_MIN: u64 = 0x1_0000;

/// Where a recorded guest can have memory.
pub const GUEST_RANGES: [(u64, u64); 2] = [(GUEST_MIN, GUEST_END), (ISLAND_START, ISLAND_END)];

/// Modules are placed from here upwards ...
pub const MODULES_START: u64 = 0x1000_0000;
/// ... to here, so that every address in them is a positive disp32 and imm32.
pub const MODULES_END: u64 = 0x7f00_0000;

/// Distance from guest memory to its shadow. A multiple of 64 whose bits 6-11 and 12-27 are set
/// unevenly: with a round distance, X and X + S fight for the same L1 way and store buffer slots.
pub const SHADOW_DISTANCE: u64 = GUEST_END + 0x5a_5840;

/// Where the engine image is linked.
pub const ENGINE_BASE: u64 = 0x7000_7000_0000;

/// Start of the code cache. Its lower halves differ from those of guest modules, so that even a truncated
/// cache address in a 32-bit x87 image is recognised.
pub const CACHE_BASE: u64 = 0x7000_9000_0000;

/// Size of the code cache's address range.
pub const CACHE_SIZE: u64 = 0x4000_0000;

/// Counters of a replay, right behind the code that counts.
pub const COUNTERS_BASE: u64 = CACHE_BASE + CACHE_SIZE;

/// The engine's own mappings are placed from here upwards.
pub const ENGINE_MAPPINGS: u64 = 0x7100_0000_0000;

/// Size of a page.
pub const PAGE: u64 = 4096;
