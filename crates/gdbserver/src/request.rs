//! What a client asks, from the text of a packet.
//!
//! *Strategy.* One function a family of packets; all of them are pure and share the small reader below.
//!
//! Invariants: no bytes make the parser panic; what it does not know is [`Request::Unknown`], which is answered by the
//! empty packet, as the protocol wants it; what it knows and cannot read is [`Request::Malformed`].

use crate::hex;

/// A thread, as clients name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadChoice {
    /// All.
    All,
    /// Whichever.
    Any,
    /// The one with this number.
    One(u32),
}

/// How a thread is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// Until something happens.
    Continue,
    /// One instruction.
    Step,
    /// Until it is outside of these addresses.
    StepRange(u64, u64),
}

/// How some threads are to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// How.
    pub motion: Motion,
    /// Which.
    pub thread: ThreadChoice,
}

/// What to stop at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointKind {
    /// An instruction; in software or hardware makes no difference here.
    Execute,
    /// Memory that is written.
    Write,
    /// Memory that is read.
    Read,
    /// Either.
    Access,
}

/// A breakpoint or watchpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Of which kind.
    pub kind: PointKind,
    /// Where.
    pub address: u64,
    /// How many bytes; for instructions it says nothing.
    pub len: u64,
    /// Conditions in bytecode: any of them is enough. Without any it always counts.
    pub conditions: Vec<Vec<u8>>,
}

/// Something that is read piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// What.
    pub object: String,
    /// What of it.
    pub annex: String,
    /// From where on.
    pub offset: u64,
    /// How much at most.
    pub len: u64,
}

/// A question about files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRequest {
    /// Whose view of the file system; there is only one.
    SetView,
    /// Opens a file, by flags of the protocol.
    Open(String, u64),
    /// Closes it.
    Close(u64),
    /// Reads of a file: number, how much, from where.
    Read(u64, u64, u64),
    /// Its properties.
    Properties(u64),
    /// Where a link leads to.
    ReadLink(String),
    /// Anything that would change something.
    Change,
}

/// A packet's meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// What the client can do, and wants to know in return.
    Supported(String),
    /// No acknowledgements any more.
    StartNoAcknowledgements,
    /// Why it stands where it stands.
    StopReason,
    /// All registers.
    ReadRegisters,
    /// One.
    ReadRegister(u64),
    /// Registers are to change.
    WriteRegisters,
    /// Memory: where, how much.
    ReadMemory(u64, u64),
    /// Memory is to change.
    WriteMemory,
    /// The thread that registers are asked of.
    SetGeneralThread(ThreadChoice),
    /// The thread that goes on.
    SetRunningThread(ThreadChoice),
    /// Whether a thread lives.
    IsThreadAlive(ThreadChoice),
    /// Which ways of going on there are.
    WhichMotions,
    /// Go on.
    Resume(Vec<Action>),
    /// Go back.
    ResumeBackward(Motion),
    /// Stop at this from now on.
    Insert(Point),
    /// Do not any more.
    Remove(Point),
    /// A piece of something.
    Transfer(Transfer),
    /// Whether the process was there before the debugger.
    WasAttached,
    /// The thread that stopped.
    CurrentThread,
    /// The first threads.
    FirstThreads,
    /// More of them.
    NextThreads,
    /// What a thread does, in words.
    ThreadDescription(ThreadChoice),
    /// Where a thread's variable is: thread, offset, module's link map.
    ThreadLocal(ThreadChoice, u64, u64),
    /// A command of our own.
    Monitor(String),
    /// Signals that the program gets without anybody being told.
    PassSignals(Vec<u64>),
    /// System calls to stop at: none, these, or all if there are no numbers.
    CatchSyscalls(Option<Vec<u64>>),
    /// A question about files.
    File(FileRequest),
    /// The client may look up symbols for us.
    OfferSymbols,
    /// The client goes.
    Detach,
    /// The client wants an end.
    Kill,
    /// Something that is understood, and cannot be made sense of.
    Malformed,
    /// Something else.
    Unknown,
}

impl Request {
    /// From the text of a packet.
    pub fn parse(packet: &[u8]) -> Request {
        parse_known(packet).unwrap_or(Request::Malformed)
    }
}

fn parse_known(packet: &[u8]) -> Option<Request> {
    let (&first, rest) = packet.split_first()?;
    Some(match first {
        b'?' => Request::StopReason,
        b'g' => Request::ReadRegisters,
        b'p' => Request::ReadRegister(hex::number(rest)?),
        b'G' | b'P' => Request::WriteRegisters,
        b'm' => {
            let (address, len) = pair(rest, b',')?;
            Request::ReadMemory(hex::number(address)?, hex::number(len)?)
        }
        b'M' | b'X' => Request::WriteMemory,
        b'H' => match rest.split_first()? {
            (b'g', thread) => Request::SetGeneralThread(thread_choice(thread)?),
            (b'c', thread) => Request::SetRunningThread(thread_choice(thread)?),
            _ => return None,
        },
        b'T' => Request::IsThreadAlive(thread_choice(rest)?),
        b'c' | b'C' => Request::Resume(vec![for_all(Motion::Continue)]),
        b's' | b'S' => Request::Resume(vec![for_all(Motion::Step)]),
        b'b' => match rest {
            b"c" => Request::ResumeBackward(Motion::Continue),
            b"s" => Request::ResumeBackward(Motion::Step),
            _ => Request::Unknown,
        },
        b'Z' => point(rest)?.map_or(Request::Unknown, Request::Insert),
        b'z' => point(rest)?.map_or(Request::Unknown, Request::Remove),
        b'D' => Request::Detach,
        b'k' => Request::Kill,
        b'q' | b'Q' => general(packet)?,
        b'v' => verbose(packet)?,
        _ => Request::Unknown,
    })
}

fn for_all(motion: Motion) -> Action {
    Action { motion, thread: ThreadChoice::Any }
}

/// Packets that begin with `q` or `Q`.
fn general(packet: &[u8]) -> Option<Request> {
    let (name, rest) = match packet.iter().position(|byte| matches!(byte, b':' | b',')) {
        Some(at) => (&packet[..at], &packet[at + 1..]),
        None => (packet, &b""[..]),
    };
    Some(match name {
        b"qSupported" => Request::Supported(String::from_utf8_lossy(rest).into_owned()),
        b"QStartNoAckMode" => Request::StartNoAcknowledgements,
        b"qAttached" => Request::WasAttached,
        b"qC" => Request::CurrentThread,
        b"qfThreadInfo" => Request::FirstThreads,
        b"qsThreadInfo" => Request::NextThreads,
        b"qThreadExtraInfo" => Request::ThreadDescription(thread_choice(rest)?),
        b"qGetTLSAddr" => {
            let mut parts = rest.split(|&byte| byte == b',');
            let thread = thread_choice(parts.next()?)?;
            Request::ThreadLocal(thread, hex::number(parts.next()?)?, hex::number(parts.next()?)?)
        }
        b"qRcmd" => Request::Monitor(hex::text(rest)?),
        b"qSymbol" => Request::OfferSymbols,
        b"QPassSignals" => Request::PassSignals(numbers(rest)?),
        b"QCatchSyscalls" => Request::CatchSyscalls(match rest {
            b"0" => None,
            b"1" => Some(Vec::new()),
            _ => Some(numbers(rest.strip_prefix(b"1;")?)?),
        }),
        b"qXfer" => transfer(rest)?,
        _ => Request::Unknown,
    })
}

/// Packets that begin with `v`.
fn verbose(packet: &[u8]) -> Option<Request> {
    if packet == b"vCont?" {
        return Some(Request::WhichMotions);
    }
    if let Some(actions) = packet.strip_prefix(b"vCont;") {
        return Some(Request::Resume(
            actions.split(|&byte| byte == b';').map(action).collect::<Option<_>>()?,
        ));
    }
    if let Some(question) = packet.strip_prefix(b"vFile:") {
        return Some(Request::File(file(question)?));
    }
    Some(if packet.starts_with(b"vKill") { Request::Kill } else { Request::Unknown })
}

fn action(text: &[u8]) -> Option<Action> {
    let (what, thread) = match text.iter().position(|&byte| byte == b':') {
        Some(at) => (&text[..at], thread_choice(&text[at + 1..])?),
        None => (text, ThreadChoice::All),
    };
    let motion = match what.split_first()? {
        (b'c' | b'C', _) => Motion::Continue,
        (b's' | b'S', _) => Motion::Step,
        (b'r', range) => {
            let (start, end) = pair(range, b',')?;
            Motion::StepRange(hex::number(start)?, hex::number(end)?)
        }
        _ => return None,
    };
    Some(Action { motion, thread })
}

/// `kind,address,length` with conditions behind it. None inside for kinds that there are not.
fn point(text: &[u8]) -> Option<Option<Point>> {
    let mut parts = text.split(|&byte| byte == b';');
    let mut numbers = parts.next()?.split(|&byte| byte == b',');
    let kind = match numbers.next()? {
        b"0" | b"1" => PointKind::Execute,
        b"2" => PointKind::Write,
        b"3" => PointKind::Read,
        b"4" => PointKind::Access,
        _ => return Some(None),
    };
    let (address, len) = (hex::number(numbers.next()?)?, hex::number(numbers.next()?)?);
    let mut conditions = Vec::new();
    for part in parts {
        // Several conditions may follow each other without a separator: `X2,2627X1,27`.
        let mut rest = part;
        while let Some(condition) = rest.strip_prefix(b"X") {
            let (len, digits) = pair(condition, b',')?;
            let digits_len = usize::try_from(hex::number(len)?).ok()?.checked_mul(2)?;
            conditions.push(hex::bytes(digits.get(..digits_len)?)?);
            rest = &digits[digits_len..];
        }
    }
    Some(Some(Point { kind, address, len, conditions }))
}

/// `object:read:annex:offset,length`.
fn transfer(text: &[u8]) -> Option<Request> {
    let mut parts = text.splitn(3, |&byte| byte == b':');
    let (object, operation, rest) = (parts.next()?, parts.next()?, parts.next()?);
    if operation != b"read" {
        return Some(Request::Unknown);
    }
    // The annex may have colons in it, the range has none.
    let last = rest.iter().rposition(|&byte| byte == b':')?;
    let (offset, len) = pair(&rest[last + 1..], b',')?;
    Some(Request::Transfer(Transfer {
        object: String::from_utf8_lossy(object).into_owned(),
        annex: String::from_utf8_lossy(&rest[..last]).into_owned(),
        offset: hex::number(offset)?,
        len: hex::number(len)?,
    }))
}

fn file(question: &[u8]) -> Option<FileRequest> {
    let (operation, rest) = pair(question, b':')?;
    let mut parts = rest.split(|&byte| byte == b',');
    let mut number = || hex::number(parts.next()?);
    Some(match operation {
        b"setfs" => FileRequest::SetView,
        b"open" => {
            let (path, rest) = pair(rest, b',')?;
            let (flags, _mode) = pair(rest, b',')?;
            FileRequest::Open(hex::text(path)?, hex::number(flags)?)
        }
        b"close" => FileRequest::Close(number()?),
        b"pread" => FileRequest::Read(number()?, number()?, number()?),
        b"fstat" => FileRequest::Properties(number()?),
        b"readlink" => FileRequest::ReadLink(hex::text(rest)?),
        b"pwrite" | b"unlink" => FileRequest::Change,
        _ => return None,
    })
}

/// Numbers with semicolons between them.
fn numbers(text: &[u8]) -> Option<Vec<u64>> {
    let parts = text.split(|&byte| byte == b';').filter(|part| !part.is_empty());
    parts.map(hex::number).collect()
}

/// A thread: `-1`, `0`, a number, or these behind the process that they are of.
fn thread_choice(text: &[u8]) -> Option<ThreadChoice> {
    let thread = match text.strip_prefix(b"p") {
        Some(named) => match pair(named, b'.') {
            Some((_, thread)) => thread,
            // All of a process.
            None => b"-1",
        },
        None => text,
    };
    Some(match thread {
        b"-1" => ThreadChoice::All,
        b"0" => ThreadChoice::Any,
        _ => ThreadChoice::One(hex::number(thread)?.try_into().ok()?),
    })
}

/// What is before and behind a separator.
fn pair(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == separator)?;
    Some((&text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(packet: &str, expected: Request) {
        assert_eq!(Request::parse(packet.as_bytes()), expected, "{packet}");
    }

    #[test]
    fn what_gdb_sends() {
        check("m7fff1000,40", Request::ReadMemory(0x7fff_1000, 0x40));
        check("Hgp1a.2b", Request::SetGeneralThread(ThreadChoice::One(0x2b)));
        check("Hc-1", Request::SetRunningThread(ThreadChoice::All));
        check("Hcp1.-1", Request::SetRunningThread(ThreadChoice::All));
        check("bc", Request::ResumeBackward(Motion::Continue));
        let step = Action { motion: Motion::Step, thread: ThreadChoice::One(2) };
        let rest = Action { motion: Motion::Continue, thread: ThreadChoice::All };
        check("vCont;s:p1.2;c", Request::Resume(vec![step, rest]));
        let range = Motion::StepRange(0x40, 0x48);
        let range = Action { motion: range, thread: ThreadChoice::One(2) };
        check("vCont;r40,48:p1.2;C05:p1.-1", Request::Resume(vec![range, rest]));
        check("QCatchSyscalls:1;1;e7", Request::CatchSyscalls(Some(vec![1, 0xe7])));
        check("QCatchSyscalls:1", Request::CatchSyscalls(Some(vec![])));
        check("QPassSignals:", Request::PassSignals(vec![]));
        check("qRcmd,7768656e", Request::Monitor("when".to_owned()));
        check("vFile:open:2f61,0,1c0", Request::File(FileRequest::Open("/a".to_owned(), 0)));
        check("vFile:pread:3,10,20", Request::File(FileRequest::Read(3, 16, 32)));
        check("vMustReplyEmpty", Request::Unknown);
        check("m12", Request::Malformed);
        check("", Request::Malformed);
    }

    #[test]
    fn conditions_come_with_breakpoints() {
        let conditions = vec![vec![0x26, 0x27], vec![0x27]];
        let point = Point { kind: PointKind::Execute, address: 0x1000, len: 1, conditions };
        check("Z0,1000,1;X2,2627X1,27", Request::Insert(point.clone()));
        check("Z1,1000,1;X2,2627;X1,27", Request::Insert(point));
        check("Z0,1000,1;X5,2627", Request::Malformed);
        check("Z7,1000,1", Request::Unknown);
    }

    #[test]
    fn annexes_may_have_colons() {
        let transfer = Transfer {
            object: "libraries-svr4".to_owned(),
            annex: "start=1;prev=a:b".to_owned(),
            offset: 0,
            len: 0xfff,
        };
        check("qXfer:libraries-svr4:read:start=1;prev=a:b:0,fff", Request::Transfer(transfer));
        check("qXfer:siginfo:write::0,fff", Request::Unknown);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(packet in proptest::collection::vec(any::<u8>(), 0..100)) {
            Request::parse(&packet);
        }

        #[test]
        fn nothing_that_looks_right_makes_it_panic(
            packet in "(vCont;|vFile:|qXfer:|Z|z|H|QCatchSyscalls:|qGetTLSAddr:|m)[a-z0-9:;,.X-]{0,40}"
        ) {
            Request::parse(packet.as_bytes());
        }
    }
}
