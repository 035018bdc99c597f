//! What device control requests write.
//!
//! Newer request numbers carry a direction and a size. Older ones are bare numbers, some newer ones carry a wrong
//! size, and any structure may point to more memory, so an encoded size alone never counts as complete
//! knowledge. The tables hold the requests of terminals, files, sockets and block devices that programs use.

use super::{FinishedCall, nothing_written_despite};
use core::mem::size_of;
use linux_raw_sys::errno;
use linux_raw_sys::general as c;

/// Bytes of `ifreq`.
const INTERFACE_REQUEST: usize = 40;

/// Requests that write so many bytes at their argument.
const WRITING: &[(u32, usize)] = &[
    // Terminals.
    (0x5401, size_of::<c::termios>()),       // TCGETS
    (0x5405, size_of::<c::termio>()),        // TCGETA
    (0x802c_542a, size_of::<c::termios2>()), // TCGETS2
    (0x5456, size_of::<c::termios>()),       // TIOCGLCKTRMIOS
    (0x5413, size_of::<c::winsize>()),       // TIOCGWINSZ
    (0x540f, 4),                             // TIOCGPGRP
    (0x5411, 4),                             // TIOCOUTQ, SIOCOUTQ
    (0x5415, 4),                             // TIOCMGET
    (0x5419, 4),                             // TIOCGSOFTCAR
    (0x541b, 4),                             // FIONREAD, SIOCINQ
    (0x541e, 72),                            // TIOCGSERIAL
    (0x5424, 4),                             // TIOCGETD
    (0x5429, 4),                             // TIOCGSID
    (0x5459, 4),                             // TIOCSERGETLSR
    (0x545d, 80),                            // TIOCGICOUNT
    (0x8004_5430, 4),                        // TIOCGPTN
    (0x8004_5432, 4),                        // TIOCGDEV
    (0x8004_5438, 4),                        // TIOCGPKT
    (0x8004_5439, 4),                        // TIOCGPTLCK
    (0x8004_5440, 4),                        // TIOCGEXCL
    // Consoles.
    (0x4b31, 1), // KDGETLED
    (0x4b33, 1), // KDGKBTYPE
    (0x4b3b, 4), // KDGETMODE
    (0x4b44, 4), // KDGKBMODE
    (0x4b62, 4), // KDGKBMETA
    (0x4b64, 1), // KDGKBLED
    (0x5600, 4), // VT_OPENQRY
    (0x5601, 8), // VT_GETMODE
    (0x5603, 6), // VT_GETSTATE
    // Files. Flags and versions are numbers of 32 bits, whatever the request says.
    (0x0001, 4),                                  // FIBMAP
    (0x0002, 4),                                  // FIGETBSZ
    (0x5460, 8),                                  // FIOQSIZE
    (0x8008_6601, 4),                             // FS_IOC_GETFLAGS
    (0x8008_7601, 4),                             // FS_IOC_GETVERSION
    (0x801c_581f, size_of::<c::fsxattr>()),       // FS_IOC_FSGETXATTR
    (0x8100_9431, 256),                           // FS_IOC_GETFSLABEL
    (0x8011_1500, size_of::<c::fsuuid2>()),       // FS_IOC_GETFSUUID
    (0x8081_1501, size_of::<c::fs_sysfs_path>()), // FS_IOC_GETFSSYSFSPATH
    (0xc018_5879, size_of::<c::fstrim_range>()),  // FITRIM
    // Namespaces.
    (0xb704, 4), // NS_GET_OWNER_UID
    // Sockets.
    (0x8903, 4),       // FIOGETOWN
    (0x8904, 4),       // SIOCGPGRP
    (0x8905, 4),       // SIOCATMARK
    (0x8906, 16),      // SIOCGSTAMP
    (0x8907, 16),      // SIOCGSTAMPNS
    (0x8010_8906, 16), // SIOCGSTAMP_NEW
    (0x8010_8907, 16), // SIOCGSTAMPNS_NEW
    (0x894b, 4),       // SIOCOUTQNSD
    // Network interfaces.
    (0x8910, INTERFACE_REQUEST),      // SIOCGIFNAME
    (0x8913, INTERFACE_REQUEST),      // SIOCGIFFLAGS
    (0x8915, INTERFACE_REQUEST),      // SIOCGIFADDR
    (0x8917, INTERFACE_REQUEST),      // SIOCGIFDSTADDR
    (0x8919, INTERFACE_REQUEST),      // SIOCGIFBRDADDR
    (0x891b, INTERFACE_REQUEST),      // SIOCGIFNETMASK
    (0x891d, INTERFACE_REQUEST),      // SIOCGIFMETRIC
    (0x891f, INTERFACE_REQUEST),      // SIOCGIFMEM
    (0x8921, INTERFACE_REQUEST),      // SIOCGIFMTU
    (0x8927, INTERFACE_REQUEST),      // SIOCGIFHWADDR
    (0x8933, INTERFACE_REQUEST),      // SIOCGIFINDEX
    (0x8935, INTERFACE_REQUEST),      // SIOCGIFPFLAGS
    (0x8942, INTERFACE_REQUEST),      // SIOCGIFTXQLEN
    (0x8970, INTERFACE_REQUEST),      // SIOCGIFMAP
    (0x8954, 68),                     // SIOCGARP
    (0x4004_54ca, INTERFACE_REQUEST), // TUNSETIFF, which answers with the name it chose
    (0x8004_54cf, 4),                 // TUNGETFEATURES
    (0x8004_54d2, INTERFACE_REQUEST), // TUNGETIFF
    (0x8004_54d3, 4),                 // TUNGETSNDBUF
    (0x8004_54d7, 4),                 // TUNGETVNETHDRSZ
    // Block devices.
    (0x0301, 16),     // HDIO_GETGEO
    (0x125e, 4),      // BLKROGET
    (0x1260, 8),      // BLKGETSIZE
    (0x1263, 8),      // BLKRAGET
    (0x1265, 8),      // BLKFRAGET
    (0x1267, 2),      // BLKSECTGET
    (0x1268, 4),      // BLKSSZGET
    (0x8008_1270, 4), // BLKBSZGET
    (0x8008_1272, 8), // BLKGETSIZE64
    (0x1278, 4),      // BLKIOMIN
    (0x1279, 4),      // BLKIOOPT
    (0x127a, 4),      // BLKALIGNOFF
    (0x127b, 4),      // BLKPBSZGET
    (0x127c, 4),      // BLKDISCARDZEROES
    (0x127e, 2),      // BLKROTATIONAL
    (0x8008_1280, 8), // BLKGETDISKSEQ
    (0x8004_1284, 4), // BLKGETZONESZ
    (0x8004_1285, 4), // BLKGETNRZONES
    (0x4c03, 168),    // LOOP_GET_STATUS
    (0x4c05, 232),    // LOOP_GET_STATUS64
    // Clocks, random numbers, performance counters, epoll.
    (0x8024_7008, 36),                           // RTC_ALM_READ
    (0x8024_7009, 36),                           // RTC_RD_TIME
    (0x8008_700b, 8),                            // RTC_IRQP_READ
    (0x8008_700d, 8),                            // RTC_EPOCH_READ
    (0x8028_7010, 40),                           // RTC_WKALM_RD
    (0x8004_5200, 4),                            // RNDGETENTCNT
    (0x8008_2407, 8),                            // PERF_EVENT_IOC_ID
    (0x8008_8a02, size_of::<c::epoll_params>()), // EPIOCGPARAMS
];

/// Requests that write nothing.
const SILENT: &[u32] = &[
    // Terminals.
    0x5402,      // TCSETS
    0x5403,      // TCSETSW
    0x5404,      // TCSETSF
    0x5406,      // TCSETA
    0x5407,      // TCSETAW
    0x5408,      // TCSETAF
    0x5409,      // TCSBRK
    0x540a,      // TCXONC
    0x540b,      // TCFLSH
    0x540c,      // TIOCEXCL
    0x540d,      // TIOCNXCL
    0x540e,      // TIOCSCTTY
    0x5410,      // TIOCSPGRP
    0x5412,      // TIOCSTI
    0x5414,      // TIOCSWINSZ
    0x5416,      // TIOCMBIS
    0x5417,      // TIOCMBIC
    0x5418,      // TIOCMSET
    0x541a,      // TIOCSSOFTCAR
    0x541d,      // TIOCCONS
    0x541f,      // TIOCSSERIAL
    0x5420,      // TIOCPKT
    0x5422,      // TIOCNOTTY
    0x5423,      // TIOCSETD
    0x5425,      // TCSBRKP
    0x5427,      // TIOCSBRK
    0x5428,      // TIOCCBRK
    0x402c_542b, // TCSETS2
    0x402c_542c, // TCSETSW2
    0x402c_542d, // TCSETSF2
    0x4004_5431, // TIOCSPTLCK
    0x4004_5436, // TIOCSIG
    0x5437,      // TIOCVHANGUP
    0x5441,      // TIOCGPTPEER
    0x5457,      // TIOCSLCKTRMIOS
    0x545c,      // TIOCMIWAIT
    // Consoles.
    0x4b2f, // KIOCSOUND
    0x4b30, // KDMKTONE
    0x4b32, // KDSETLED
    0x4b3a, // KDSETMODE
    0x4b45, // KDSKBMODE
    0x4b65, // KDSKBLED
    0x5602, // VT_SETMODE
    0x5605, // VT_RELDISP
    0x5606, // VT_ACTIVATE
    0x5607, // VT_WAITACTIVE
    // Descriptors and files.
    0x5421,      // FIONBIO
    0x5450,      // FIONCLEX
    0x5451,      // FIOCLEX
    0x5452,      // FIOASYNC
    0x4004_9409, // FICLONE
    0x4020_940d, // FICLONERANGE
    0x4008_6602, // FS_IOC_SETFLAGS
    0x4008_7602, // FS_IOC_SETVERSION
    0x401c_5820, // FS_IOC_FSSETXATTR
    0x4030_5828, // FS_IOC_RESVSP
    0x4030_582a, // FS_IOC_RESVSP64
    0x4030_582b, // FS_IOC_UNRESVSP64
    0x4030_5839, // FS_IOC_ZERO_RANGE
    0xc004_5877, // FIFREEZE
    0xc004_5878, // FITHAW
    // Namespaces.
    0xb701, // NS_GET_USERNS
    0xb702, // NS_GET_PARENT
    0xb703, // NS_GET_NSTYPE
    // Sockets and network interfaces.
    0x8901,      // FIOSETOWN
    0x8902,      // SIOCSPGRP
    0x890b,      // SIOCADDRT
    0x890c,      // SIOCDELRT
    0x8914,      // SIOCSIFFLAGS
    0x8916,      // SIOCSIFADDR
    0x8918,      // SIOCSIFDSTADDR
    0x891a,      // SIOCSIFBRDADDR
    0x891c,      // SIOCSIFNETMASK
    0x8922,      // SIOCSIFMTU
    0x8923,      // SIOCSIFNAME
    0x8924,      // SIOCSIFHWADDR
    0x8943,      // SIOCSIFTXQLEN
    0x4004_54cb, // TUNSETPERSIST
    0x4004_54cc, // TUNSETOWNER
    0x4004_54ce, // TUNSETGROUP
    0x4004_54d0, // TUNSETOFFLOAD
    // Block devices.
    0x125d,      // BLKROSET
    0x125f,      // BLKRRPART
    0x1261,      // BLKFLSBUF
    0x1262,      // BLKRASET
    0x1264,      // BLKFRASET
    0x4008_1271, // BLKBSZSET
    0x1277,      // BLKDISCARD
    0x127d,      // BLKSECDISCARD
    0x127f,      // BLKZEROOUT
    0x4c00,      // LOOP_SET_FD
    0x4c01,      // LOOP_CLR_FD
    0x4c02,      // LOOP_SET_STATUS
    0x4c04,      // LOOP_SET_STATUS64
    0x4c06,      // LOOP_CHANGE_FD
    0x4c07,      // LOOP_SET_CAPACITY
    0x4c08,      // LOOP_SET_DIRECT_IO
    0x4c09,      // LOOP_SET_BLOCK_SIZE
    0x4c0a,      // LOOP_CONFIGURE
    0x4c80,      // LOOP_CTL_ADD
    0x4c81,      // LOOP_CTL_REMOVE
    0x4c82,      // LOOP_CTL_GET_FREE
    // Clocks.
    0x7001,      // RTC_AIE_ON
    0x7002,      // RTC_AIE_OFF
    0x7003,      // RTC_UIE_ON
    0x7004,      // RTC_UIE_OFF
    0x7005,      // RTC_PIE_ON
    0x7006,      // RTC_PIE_OFF
    0x4024_7007, // RTC_ALM_SET
    0x4024_700a, // RTC_SET_TIME
    0x4008_700c, // RTC_IRQP_SET
    0x4028_700f, // RTC_WKALM_SET
    // Performance counters, epoll.
    0x2400,      // PERF_EVENT_IOC_ENABLE
    0x2401,      // PERF_EVENT_IOC_DISABLE
    0x2402,      // PERF_EVENT_IOC_REFRESH
    0x2403,      // PERF_EVENT_IOC_RESET
    0x4008_2404, // PERF_EVENT_IOC_PERIOD
    0x2405,      // PERF_EVENT_IOC_SET_OUTPUT
    0x4008_2406, // PERF_EVENT_IOC_SET_FILTER
    0x4004_2408, // PERF_EVENT_IOC_SET_BPF
    0x4004_2409, // PERF_EVENT_IOC_PAUSE_OUTPUT
    0x4008_8a01, // EPIOCSPARAMS
];

const SIOCGIFCONF: u32 = 0x8912;
const FS_IOC_FIEMAP: u32 = 0xc020_660b;
const FIDEDUPERANGE: u32 = 0xc018_9436;

pub fn ioctl(call: &mut FinishedCall) -> bool {
    let request = call.narrow(1);
    let fixed = WRITING.iter().find(|&&(number, _)| number == request);
    let silent = SILENT.contains(&request);
    match call.error() {
        None => {}
        // No driver took it, so none wrote.
        Some(errno::ENOTTY | errno::EBADF) => return true,
        error => {
            let nested = matches!(request, SIOCGIFCONF | FS_IOC_FIEMAP | FIDEDUPERANGE);
            return silent || (fixed.is_some() || nested) && nothing_written_despite(error);
        }
    }
    match (fixed, request) {
        (Some(&(_, size)), _) => call.bytes(2, size),
        (None, SIOCGIFCONF) => interfaces(call),
        (None, FS_IOC_FIEMAP) => extents(call),
        (None, FIDEDUPERANGE) => duplicates(call),
        _ if silent => true,
        _ => encoded(call, request),
    }
}

/// All interfaces: the length of the list comes back in the structure that says where to put it.
fn interfaces(call: &mut FinishedCall) -> bool {
    let start = call.args[2];
    let (Some(length), Some(list)) = (call.read_u32(start), call.read_u64(start.wrapping_add(8)))
    else {
        return false;
    };
    call.bytes(2, 4);
    call.described(list, length.into())
}

/// The extents of a file, behind the structure that asks for them.
fn extents(call: &mut FinishedCall) -> bool {
    /// Bytes of `fiemap` and of `fiemap_extent`.
    const HEAD: u64 = 32;
    const EXTENT: u64 = 56;
    let start = call.args[2];
    let (Some(found), Some(room)) =
        (call.read_u32(start.wrapping_add(20)), call.read_u32(start.wrapping_add(24)))
    else {
        return false;
    };
    call.described(start, HEAD + EXTENT * u64::from(found.min(room)))
}

/// What became of each file that was compared, behind the structure that names the source.
fn duplicates(call: &mut FinishedCall) -> bool {
    let start = call.args[2];
    let Some(count) = call.read_u16(start.wrapping_add(16)) else { return false };
    let results = size_of::<c::file_dedupe_range_info>() as u64 * u64::from(count);
    call.range(start, size_of::<c::file_dedupe_range>() as u64 + results);
    true
}

/// A request that nobody looked at; its number may say that it writes, and how much.
fn encoded(call: &mut FinishedCall, request: u32) -> bool {
    const READ: u32 = 2;
    let (direction, size) = (request >> 30, request >> 16 & 0x3fff);
    if direction & READ != 0 {
        call.bytes(2, size as usize);
    }
    false
}
