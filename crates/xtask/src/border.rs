//! Runs the proof that tools reach nothing inside, in a network namespace that holds nothing but sentinels.

use std::path::Path;
use std::process::{Command, Stdio};

/// Addresses of the namespace: what must not be reached, one public host and one inner host that is opened.
const ADDRESSES: &[&str] = &[
    "10.0.0.1/32",
    "10.0.0.2/32",
    "93.184.216.34/32",
    "100.64.0.1/32",
    "169.254.169.254/32",
    "172.16.0.1/32",
    "192.168.1.1/32",
    "198.18.0.1/32",
    "fd00:ec2::254/128",
];

/// Why there can be no such namespace here, with a remedy.
pub(crate) fn obstacle() -> Option<String> {
    let mut probe = namespace();
    let probe = probe.args(["ip", "link", "set", "lo", "up"]).stdout(Stdio::null()).stderr(Stdio::null());
    match probe.status() {
        Ok(status) if status.success() => None,
        Ok(_) => Some(
            "this machine lets nobody make a network namespace; run it where `unshare --net` is allowed"
                .into(),
        ),
        Err(_) => Some("there is no `unshare`; install util-linux and iproute2".into()),
    }
}

/// Runs the program `border` in a namespace of its own. Its network is gone with it.
pub(crate) fn run(root: &Path, program: &Path) -> bool {
    let resolver = root.join("target/border-resolv.conf");
    if let Err(error) = std::fs::write(&resolver, "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n") {
        eprintln!("error: cannot write {}: {error}", resolver.display());
        return false;
    }
    let mut script = String::from("set -e; ip link set lo up; mount --bind \"$1\" /etc/resolv.conf; ");
    for address in ADDRESSES {
        script.push_str(&format!("ip address add {address} dev lo; "));
    }
    script.push_str("exec \"$0\"");
    let mut inside = namespace();
    let status = inside.args(["sh", "-c", &script]).arg(program).arg(&resolver).status();
    status
        .inspect_err(|error| eprintln!("error: cannot run unshare: {error}"))
        .is_ok_and(|status| status.success())
}

fn namespace() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount", "--"]);
    command
}
