//! `retro gdbserver` and `retro gdb`: other users of the machine, and what is not gdb.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use retro_testkit::compare::{Ending, run};

use crate::place::{
    Place, TIMEOUT, assert_refused, is_root, printed, retro_path, said, wait_until,
};

fn recorded(name: &str) -> Place {
    let place = Place::new(name);
    let outcome = place.retro(&["record", "--quiet", "-o", "recording", "--", "true"]);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", said(&outcome));
    assert_eq!(place.retro(&["index", "recording"]).status, Ending::Exited(0));
    place
}

/// A server, ended when dropped.
struct Server {
    child: Child,
    /// Where it listens.
    at: String,
    warning: PathBuf,
}

impl Server {
    fn start(place: &Place, umask: &str, arguments: &str) -> Server {
        let command = format!("umask {umask}; exec \"$0\" gdbserver recording {arguments}");
        let warning = place.path().join("warning");
        let mut child = place
            .command("sh")
            .args(["-c", &command])
            .arg(retro_path())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&warning).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let at = line.trim().strip_prefix("listening: ").map(str::to_owned);
        let at = at.unwrap_or_else(|| panic!("{line:?} {}", fs::read_to_string(&warning).unwrap()));
        Server { child, at, warning }
    }

    fn warning(&self) -> String {
        fs::read_to_string(&self.warning).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn packet(data: &str) -> Vec<u8> {
    let sum = data.bytes().fold(0u8, u8::wrapping_add);
    format!("${data}#{sum:02x}").into_bytes()
}

/// Sends bytes and returns all that comes back until the other side closes, or nothing comes for a while.
fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> Vec<u8> {
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..count]);
    }
    answer
}

fn unix(path: &str) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    stream
}

fn tcp(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    stream
}

/// By default there is no port, and the socket is the user's alone whatever the umask is.
#[test]
fn the_server_has_a_socket_of_the_users_own() {
    let place = recorded("socket");
    for umask in ["000", "022"] {
        let mut server = Server::start(&place, umask, "");
        let path = PathBuf::from(&server.at);
        let found = fs::symlink_metadata(&path).unwrap();
        assert!(found.file_type().is_socket());
        assert_eq!(found.mode() & 0o777, 0o600, "umask {umask}");
        let directory = fs::metadata(path.parent().unwrap()).unwrap();
        assert_eq!(directory.mode() & 0o777, 0o700, "umask {umask}");
        let answer = exchange(unix(&server.at), &packet("?"));
        assert!(String::from_utf8_lossy(&answer).contains("$T"), "{answer:?}");
        // Nothing of it is left, also if a signal ends it.
        kill(Pid::from_raw(server.child.id() as i32), Signal::SIGTERM).unwrap();
        server.child.wait().unwrap();
        assert!(!path.parent().unwrap().exists());
    }
}

#[test]
fn a_socket_at_a_chosen_place_is_the_users_own() {
    let place = recorded("chosen");
    let server = Server::start(&place, "000", "--socket here");
    let found = fs::symlink_metadata(place.path().join("here")).unwrap();
    assert_eq!(found.mode() & 0o777, 0o600);
    // What is there already stays.
    fs::write(place.path().join("file"), "precious").unwrap();
    let outcome = place.retro(&["gdbserver", "recording", "--socket", "file"]);
    assert_refused(&outcome, &["file"]);
    assert_eq!(fs::read(place.path().join("file")).unwrap(), b"precious");
    drop(server);
}

/// Even with a socket that was opened to everybody, only this user is served: the kernel tells who asks.
#[test]
fn another_user_is_not_served() {
    if !is_root("another user of a socket") {
        return;
    }
    let place = recorded("another");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(&place, "000", "--socket here");
    fs::set_permissions(place.path().join("here"), fs::Permissions::from_mode(0o777)).unwrap();
    let client = "$s = IO::Socket::UNIX->new(Peer => 'here') or die 'no connection'; $SIG{PIPE} = 'IGNORE'; \
                  $s->autoflush(1); print $s '$?#3f'; sysread($s, $answer, 100); print \"answer <$answer>\"";
    let ask = |user: u32| {
        let mut command = place.command("setpriv");
        command.args([&format!("--reuid={user}"), "--clear-groups", "/usr/bin/perl"]);
        let outcome = run(command.args(["-MIO::Socket::UNIX", "-e", client]), TIMEOUT);
        printed(&outcome) + &said(&outcome)
    };
    assert!(ask(0).contains("answer <+"), "{}", ask(0));
    assert_eq!(ask(65534), "answer <>");
    drop(server);
}

/// A port has to be asked for, and comes with a warning.
#[test]
fn a_port_comes_with_a_warning() {
    let place = recorded("port");
    let server = Server::start(&place, "022", "--listen 127.0.0.1:0");
    assert!(
        server.warning().contains("every user of this machine can reach"),
        "{}",
        server.warning()
    );
    let answer = exchange(tcp(&server.at), &packet("?"));
    assert!(String::from_utf8_lossy(&answer).contains("$T"), "{answer:?}");
    let outcome = place.retro(&["gdbserver", "recording", "--listen", "0.0.0.0:0"]);
    assert_refused(&outcome, &["--allow-remote"]);
}

/// A web page can make a browser send requests to a port of this machine. They get no answer at all.
#[test]
fn a_browser_gets_no_answer() {
    let place = recorded("browser");
    let server = Server::start(&place, "022", "--listen 127.0.0.1:0");
    for request in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n$?#3f",
        b"OPTIONS * HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"EHLO evil\r\n",
        b"\n\n$?#3f",
    ] {
        let answer = exchange(tcp(&server.at), request);
        assert!(answer.is_empty(), "{:?}: {answer:?}", String::from_utf8_lossy(request));
    }
    let address = format!("http://{}/", server.at);
    let curl =
        Command::new("curl").args(["--silent", "--max-time", "10", &address]).output().unwrap();
    assert!(!curl.status.success() && curl.stdout.is_empty(), "{curl:?}");
    // Whoever speaks the protocol is served all the same.
    assert!(!exchange(tcp(&server.at), &packet("?")).is_empty());
}

/// A client that turns out to be something else is served no further.
#[test]
fn what_is_not_gdb_is_dropped_later_too() {
    let place = recorded("later");
    let server = Server::start(&place, "022", "--listen 127.0.0.1:0");
    let mut bytes = packet("?");
    bytes.extend_from_slice(b"GET / HTTP/1.1\r\n\r\n");
    bytes.extend(packet("qSupported"));
    let answer = String::from_utf8_lossy(&exchange(tcp(&server.at), &bytes)).into_owned();
    assert!(!answer.contains("PacketSize"), "{answer}");
}

/// Files are those that the run mapped.
#[test]
fn no_other_file_is_served() {
    let place = recorded("files");
    fs::write(place.home().join("secret"), "the secret").unwrap();
    let server = Server::start(&place, "022", "");
    let secret = place.home().join("secret");
    let paths = [
        "/etc/passwd",
        "/etc/shadow",
        secret.to_str().unwrap(),
        "/proc/1/environ",
        "/proc/self/mem",
        "/proc/self/../../etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/secret",
        "/bin/true/../../etc/passwd",
        "../../../../../../etc/passwd",
        "/dev/zero",
        "",
    ];
    for path in paths {
        let hex: String = path.bytes().map(|byte| format!("{byte:02x}")).collect();
        let answer = exchange(unix(&server.at), &packet(&format!("vFile:open:{hex},0,0")));
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains("$F-1,"), "{path:?}: {answer}");
    }
    fs::remove_file(secret).unwrap();
}

/// The directory of `retro gdb` has its socket and what gdb executes first.
#[test]
fn the_directory_of_gdb_is_the_users_own() {
    let place = recorded("directory");
    let fake = place.path().join("fake-gdb");
    // Its second argument is the script, in the directory.
    fs::write(&fake, "#!/bin/sh\nstat -c '%a %n' \"$(dirname \"$2\")\" \"$(dirname \"$2\")\"/*\n")
        .unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    for umask in ["000", "022"] {
        let command = format!("umask {umask}; exec \"$0\" gdb recording --gdb ./fake-gdb");
        let outcome = run(place.command("sh").args(["-c", &command]).arg(retro_path()), TIMEOUT);
        let text = printed(&outcome);
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("700 "), "umask {umask}: {text} {}", said(&outcome));
        let socket = text.lines().find(|line| line.ends_with("/socket")).unwrap_or_default();
        assert!(socket.starts_with("600 "), "umask {umask}: {text}");
        let directory = first.strip_prefix("700 ").unwrap();
        wait_until("the directory is left", || !Path::new(directory).exists());
    }
}

/// Clients that say nothing, or nonsense, or go away, do not keep the others from asking.
#[test]
fn a_crowd_of_strangers_harms_nobody() {
    let place = recorded("crowd");
    let server = Server::start(&place, "022", "--listen 127.0.0.1:0");
    let silent: Vec<TcpStream> = (0..20).map(|_| tcp(&server.at)).collect();
    for _ in 0..200 {
        let mut stream = tcp(&server.at);
        let _ = stream.write_all(b"\xff\xfe\xfd");
    }
    wait_until("nobody is served", || !exchange(tcp(&server.at), &packet("?")).is_empty());
    drop(silent);
}

/// Programs can bring scripts for gdb: in a section of their own, and in files beside them. Those of a received recording are not
/// executed, even where the user lets gdb execute all that it finds.
#[track_caller]
fn assert_no_script_is_executed(name: &str, prepare: &str) {
    let place = Place::new(name);
    let script = |name: &str| format!("open('{}', 'w')", place.path().join(name).display());
    let source = format!(
        "#include <fcntl.h>\n#include <sys/mman.h>\n#include <unistd.h>\n\
         asm(\".pushsection .debug_gdb_scripts, \\\"MS\\\",@progbits,1\\n.byte 4\\n\\\n\
         .ascii \\\"inlined\\\\n{}\\\\n\\\"\\n.byte 0\\n.popsection\");\n\
         int main(void) {{ int script = open(\"evil/program-gdb.py\", O_RDONLY);\n\
         return mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, script, 0) == MAP_FAILED; }}",
        script("owned-section")
    );
    fs::create_dir(place.path().join("evil")).unwrap();
    fs::write(place.path().join("program.c"), source).unwrap();
    fs::write(place.path().join("evil/program-gdb.py"), script("owned-file") + "\n").unwrap();
    let steps = format!(
        "cc -g -Wl,--build-id program.c -o evil/program && {prepare} && \"$0\" record --quiet -o recording -- ./evil/program && \
                 \"$0\" pack recording -o p.retro && rm -r evil && \"$0\" unpack p.retro -o received && \"$0\" index received"
    );
    let made = run(place.command("sh").args(["-c", &steps]).arg(retro_path()), TIMEOUT);
    assert_eq!(made.status, Ending::Exited(0), "{}", said(&made));
    for trusting in ["", "set auto-load safe-path /\n"] {
        fs::write(place.home().join(".gdbinit"), trusting).unwrap();
        let outcome = place.retro(&[
            "gdb",
            "received",
            "--",
            "-batch",
            "-ex",
            "info functions ^main$",
            "-ex",
            "info auto-load",
        ]);
        let text = printed(&outcome) + &said(&outcome);
        // It has read the program.
        assert!(text.contains("int main(void)"), "{text}");
        for name in ["owned-section", "owned-file"] {
            assert!(!place.path().join(name).exists(), "{trusting:?}: {text}");
        }
    }
}

#[test]
fn scripts_of_a_received_program_are_not_executed() {
    assert_no_script_is_executed("scripts", "true");
}

/// Debug information of its own is where gdb looks for that of the machine.
#[test]
fn scripts_of_received_debug_information_are_not_executed() {
    assert_no_script_is_executed(
        "debug-scripts",
        "(cd evil && objcopy --only-keep-debug program program.debug && strip --strip-debug program && \
         objcopy --add-gnu-debuglink=program.debug program)",
    );
}
