//! The system calls that write to a descriptor, and where their data lies.

use libc::c_long;

/// A call that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputCall {
    /// Where to.
    pub descriptor: i32,
    /// What.
    pub data: Data,
    /// Bytes that it can write at most, if the arguments tell.
    pub most: u64,
}

/// Where in memory data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Here.
    Bytes(u64),
    /// Where an array of so many `iovec` says.
    Vectors(u64, u64),
    /// Where a `msghdr` says.
    Message(u64),
    /// Where so many `mmsghdr` say; the call returns the number of messages.
    Messages(u64, u64),
    /// Nowhere: the kernel moves it by itself.
    Elsewhere,
}

/// Whether a call is made to other ends than its descriptors say.
pub fn is_asynchronous(number: u64) -> bool {
    [libc::SYS_io_uring_enter, libc::SYS_io_submit].contains(&(number as c_long))
}

/// What a call writes, if it is one that writes.
pub fn output_call(number: u64, args: &[u64; 6]) -> Option<OutputCall> {
    let call = |descriptor: usize, data, most| {
        Some(OutputCall { descriptor: args[descriptor] as i32, data, most })
    };
    match number as c_long {
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_sendto => {
            call(0, Data::Bytes(args[1]), args[2])
        }
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 | libc::SYS_vmsplice => {
            call(0, Data::Vectors(args[1], args[2]), u64::MAX)
        }
        libc::SYS_sendmsg => call(0, Data::Message(args[1]), u64::MAX),
        libc::SYS_sendmmsg => call(0, Data::Messages(args[1], args[2]), u64::MAX),
        libc::SYS_sendfile => call(0, Data::Elsewhere, args[3]),
        libc::SYS_tee => call(1, Data::Elsewhere, args[2]),
        libc::SYS_splice | libc::SYS_copy_file_range => call(2, Data::Elsewhere, args[4]),
        _ => None,
    }
}

/// Vectors of a call that are looked at: the kernel's own limit.
const VECTORS_LIMIT: u64 = 1024;

const VECTOR_SIZE: u64 = 16;
/// Bytes of `msghdr`, and of `mmsghdr`.
const MESSAGE_SIZE: u64 = 56;
const MESSAGES_SIZE: u64 = 64;
/// Where in `msghdr` the vectors and their number are.
const MESSAGE_VECTORS: usize = 16;
const MESSAGE_COUNT: usize = 24;

impl Data {
    /// The ranges of memory that `written` bytes lie in, in order. `read` reads memory; what it cannot read is
    /// missing in its answer, and then in this one.
    pub fn ranges<E>(
        self,
        written: u64,
        read: &mut dyn FnMut(u64, u64) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<(u64, u64)>, E> {
        let vectors = match self {
            Data::Bytes(address) => return Ok(vec![(address, written)]),
            Data::Elsewhere => return Ok(Vec::new()),
            Data::Vectors(address, count) => vec![(address, count)],
            Data::Message(address) => {
                message_vectors(&read(address, MESSAGE_SIZE)?).into_iter().collect()
            }
            Data::Messages(address, count) => {
                // The result counts messages; each is taken whole.
                let count = count.min(written).min(VECTORS_LIMIT);
                let messages = read(address, count * MESSAGES_SIZE)?;
                let messages = messages.chunks_exact(MESSAGES_SIZE as usize);
                messages.filter_map(message_vectors).collect()
            }
        };
        let mut left = if matches!(self, Data::Messages(..)) { u64::MAX } else { written };
        let mut ranges = Vec::new();
        for (address, count) in vectors {
            let count = count.min(VECTORS_LIMIT);
            let bytes = read(address, count * VECTOR_SIZE)?;
            for vector in bytes.chunks_exact(VECTOR_SIZE as usize) {
                let (Some(start), Some(length)) = (word(vector, 0), word(vector, 8)) else { break };
                let length = length.min(left);
                left -= length;
                if length > 0 {
                    ranges.push((start, length));
                }
            }
        }
        Ok(ranges)
    }
}

fn message_vectors(message: &[u8]) -> Option<(u64, u64)> {
    Some((word(message, MESSAGE_VECTORS)?, word(message, MESSAGE_COUNT)?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Memory that begins at address 0x1000.
    fn ranges(data: Data, written: u64, memory: &[u64]) -> Vec<(u64, u64)> {
        let bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut read = |address: u64, len: u64| -> Result<Vec<u8>, Infallible> {
            let start = (address - 0x1000) as usize;
            Ok(bytes[start..bytes.len().min(start + len as usize)].to_vec())
        };
        let Ok(ranges) = data.ranges(written, &mut read);
        ranges
    }

    #[test]
    fn data_is_where_the_arguments_say() {
        let call = output_call(1, &[2, 0x5000, 10, 0, 0, 0]).unwrap();
        assert_eq!(call, OutputCall { descriptor: 2, data: Data::Bytes(0x5000), most: 10 });
        assert_eq!(ranges(call.data, 7, &[]), [(0x5000, 7)]);
        let splice = output_call(libc::SYS_splice as u64, &[3, 0, 1, 0, 100, 0]).unwrap();
        assert_eq!((splice.descriptor, splice.data), (1, Data::Elsewhere));
        assert_eq!(output_call(0, &[1; 6]), None);
    }

    #[test]
    fn vectors_are_cut_where_the_call_stopped() {
        let memory = [0xa000, 5, 0xb000, 0, 0xc000, 9];
        let vectors = Data::Vectors(0x1000, 3);
        assert_eq!(ranges(vectors, 14, &memory), [(0xa000, 5), (0xc000, 9)]);
        assert_eq!(ranges(vectors, 8, &memory), [(0xa000, 5), (0xc000, 3)]);
        assert_eq!(ranges(vectors, 5, &memory), [(0xa000, 5)]);
        // More than is there, and more than there can be.
        assert_eq!(
            ranges(Data::Vectors(0x1000, u64::MAX), 14, &memory),
            [(0xa000, 5), (0xc000, 9)]
        );
    }

    #[test]
    fn messages_lead_to_vectors() {
        let header = |vectors| [0, 0, vectors, 1, 0, 0, 0];
        let one: Vec<u64> = [&header(0x1038)[..], &[0xa000, 5]].concat();
        assert_eq!(ranges(Data::Message(0x1000), 5, &one), [(0xa000, 5)]);
        let two: Vec<u64> =
            [&header(0x1080)[..], &[5], &header(0x1090), &[6], &[0xa000, 5], &[0xb000, 6]].concat();
        assert_eq!(ranges(Data::Messages(0x1000, 2), 2, &two), [(0xa000, 5), (0xb000, 6)]);
        assert_eq!(ranges(Data::Messages(0x1000, 2), 1, &two), [(0xa000, 5)]);
    }
}
