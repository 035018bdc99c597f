//! How recorded processes end, and what is told of those that were not recorded.

use std::process::Command;
use std::time::{Duration, Instant};

use retro_testkit::compare::Ending;
use serde_json::Value;

use crate::store::Store;
use crate::text;

fn endings(info: &Value) -> Vec<&str> {
    let processes = info["processes"].as_array().unwrap();
    processes.iter().map(|process| process["ended"].as_str().unwrap()).collect()
}

/// Children that signals end, from outside and by their own doing. Nobody but their parent is told how.
#[test]
fn children_that_are_killed_have_known_ends() {
    const CHILDREN: &str = r#"
        sub child {
            my ($act, $signal) = @_;
            my $pid = fork;
            if (!$pid) { $act->(); sleep 30; exit 1 }
            if ($signal) { select undef, undef, undef, 0.2; kill $signal, $pid }
            waitpid $pid, 0;
            print $? & 127, "\n";
        }
        use POSIX ();
        child(sub { POSIX::abort() });
        child(sub { kill 'USR1', $$ });
        child(sub { POSIX::raise(POSIX::SIGBUS()) });
        child(sub {}, 'KILL');
        child(sub {}, 'TERM');
        child(sub { alarm 1; 1 while 1 });
        child(sub { exec 'sleep', '30' }, 'INT');
        child(sub { exec 'sh', '-c', 'kill -9 $$' });
    "#;
    let store = Store::new("ends-killed");
    let outcome = store.retro(["record", "--quiet", "--no-index", "--", "perl", "-e", CHILDREN]);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", text(&outcome.stderr));
    assert_eq!(text(&outcome.stdout), "6\n10\n7\n9\n15\n14\n2\n9\n");
    let info = store.json(["info", "--json"]);
    let mut killed: Vec<&str> =
        endings(&info).into_iter().filter(|end| !end.starts_with("executed")).collect();
    assert_eq!(killed.remove(0), "exited with status 0");
    let wanted = ["ABRT", "USR1", "BUS", "KILL", "TERM", "ALRM", "INT", "KILL"];
    assert_eq!(killed, wanted.map(|name| format!("killed by SIG{name}")));
}

/// Dead processes are not waited for as if they were still at work, nor called so.
#[test]
fn the_dead_are_not_in_the_background() {
    const SCRIPT: &str =
        "for i in 1 2 3 4 5 6 7 8; do sleep 60 & pids=\"$pids $!\"; done; kill -9 $pids";
    let store = Store::new("ends-dead");
    let begun = Instant::now();
    let outcome = store.retro(["record", "--no-index", "--", "bash", "-c", SCRIPT]);
    let stderr = text(&outcome.stderr);
    assert!(stderr.contains("recorded bash-1: "), "{stderr}");
    assert!(!stderr.contains("background"), "{stderr}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let living = store.retro(["record", "--no-index", "--", "sh", "-c", "sleep 9 & sleep 9 &"]);
    let stderr = text(&living.stderr);
    assert!(stderr.contains("; 2 background processes are still being recorded"), "{stderr}");
}

/// Whoever cannot reach the recorder is told apart from whoever found no room.
#[test]
fn unrecorded_processes_are_told_with_the_reason() {
    // SAFETY: asks for a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    if !is_root || !has_setpriv {
        return eprintln!("SKIPPED: becoming another user takes privileges and `setpriv`");
    }
    let store = Store::new("ends-unreached");
    let become_other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "true"];
    let command = ["record", "--no-index", "--", "sh", "-c"];
    let script = format!("{}; true", become_other.join(" "));
    let outcome = store.retro(command.iter().copied().chain([script.as_str()]));
    let stderr = text(&outcome.stderr);
    let told = "1 process ran unrecorded: no access to the recorder: another user, or no /proc";
    assert!(stderr.contains(told), "{stderr}");
    assert!(!stderr.contains("too many"), "{stderr}");
    let info = store.output(["info"]);
    assert!(info.contains("1 more ran unrecorded (1: no access to the recorder"), "{info}");
}
