//! No other user of the machine can read the data folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::upstream::Reply;

use crate::process::Process;
use crate::world::{Server, World};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// The binary of a user whose new files are readable by every user of the machine (umask).
fn careless(world: &World, args: &[&str]) -> Command {
    let rondo = world.rondo(args);
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(rondo.get_program()).args(rondo.get_args());
    command.env_clear().current_dir(world.path(""));
    for (name, value) in rondo.get_envs() {
        command.env(name, value.unwrap());
    }
    command
}

/// The files in the data folder that others may do something with, by name.
fn open_files(data: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| mode(file) & 0o077 != 0).collect()
}

#[tokio::test]
async fn what_the_server_makes_is_for_its_owner_alone() {
    let world = World::new().await;
    world.upstream.program(|_| Reply::says("Hello."));
    let data = world.path("data");
    let server = Server::start(&mut careless(&world, &["serve"])).await;
    server.say("Hi").await.all().await;
    assert_eq!((mode(&data), open_files(&data)), (0o700, vec![]));
    for file in ["rondo.db", "rondo.db-wal", "rondo.db-shm", "lock", "control.json", "vault.key"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    assert!(!server.process.errors.text().contains("other users"), "there was nothing to correct");
    server.process.kill();
    let copied = Process::start(&mut careless(&world, &["backup", "copy"])).ended().await;
    assert_eq!(copied.code, Some(0), "{}", copied.errors);
    assert_eq!((mode(&world.path("copy")), mode(&world.path("copy/rondo.db"))), (0o700, 0o600));
}

#[tokio::test]
async fn what_was_open_to_others_is_complained_about_and_closed() {
    let world = World::new().await;
    let data = world.path("data");
    world.serve().await.process.kill();
    for (path, mode) in [(data.clone(), 0o755), (data.join("rondo.db"), 0o644), (data.join("lock"), 0o664)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let examine = || Process::start(world.rondo(&["doctor"]).env_remove("OPENAI_BASE_URL")).ended();
    let doctor = examine().await;
    let shown = data.display();
    let finding = format!(
        "BAD   data folder: {shown}: other users of this machine can read it (mode 755); run `chmod 700 \
         {shown}`\n"
    );
    assert!(doctor.code == Some(1) && doctor.output.contains(&finding), "{doctor:?}");

    let server = world.serve().await;
    server.process.errors.line("only the user who runs the server can").await;
    assert_eq!((mode(&data), open_files(&data)), (0o700, vec![]));
    let doctor = examine().await;
    assert!(doctor.output.contains(&format!("ok    data folder: {shown}\n")), "{doctor:?}");
}
