//! The trial of a container image: its root file system in a namespace, read-only, by a user without rights.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::loopback::{LoopbackAnswer, LoopbackRequest, LoopbackServer, free_port};
use super::{Emulator, expect_in, run, run_refused};
use crate::dist::image::{self, USER};

/// The longest wait for a server to accept requests. Under an emulator it starts slowly.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// The answer of the scripted model.
const ANSWER: &str = "Forty-two.";

/// Mounts the data folder into the image, which is then read-only, and becomes the server's user in it.
const ENTER: &str = r#"set -e
mount --bind "$IMAGE_ROOT" "$IMAGE_ROOT"
mount --bind "$IMAGE_DATA" "$IMAGE_ROOT/data"
mount --rbind /proc "$IMAGE_ROOT/proc"
mount --rbind /dev "$IMAGE_ROOT/dev"
mount -o remount,ro,bind "$IMAGE_ROOT"
exec unshare --user --map-user="$IMAGE_USER" --map-group="$IMAGE_USER" --root="$IMAGE_ROOT" --wd=/etc/rondo -- "$@""#;

/// Makes a key, starts the server, asks for its health, and gets an answer of a scripted model.
pub(crate) fn try_image(archive: &[u8], emulator: &Emulator) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let container = Container::unpack(archive, folder.path(), emulator)?;
    let key = run(&mut container.command(&["keys", "add", "alice"]))?;
    let key = key.trim();
    let refused = run_refused(&mut container.command(&["init", "mine"]))?;
    expect_in(&refused, "Read-only file system")?;
    let model = LoopbackServer::start(scripted_answer)?;
    let port = free_port()?;
    let mut serve = container.command(&["serve"]);
    let open = run_refused(serve.env("RONDO_LISTEN", format!("0.0.0.0:{port}")))?;
    expect_in(&open, "their requests would not be encrypted")?;
    serve.env("RONDO_BEHIND_PROXY", "true").env("RONDO_DISCOVER", "false");
    serve.env("OPENAI_BASE_URL", format!("{}/v1", model.url())).env("RONDO_MODEL", "scripted");
    let mut server = RunningServer::start(serve, folder.path())?;
    server.wait_until_ready(port)?;
    let health = run(container.command(&["health"]).env("RONDO_LISTEN", format!("0.0.0.0:{port}")))?;
    expect_in(&health, "ready")?;
    let body = r#"{"message": "What is the answer?", "stream": false}"#;
    let mut request = LoopbackRequest { port, path: "/v1/apps/studio/runs", key: None, body: Some(body) };
    let refused = request.send().map_err(|error| format!("no answer: {error}"))?;
    if refused.0 != 401 {
        return Err(format!("a request without a key got {refused:?}"));
    }
    request.key = Some(key);
    let (status, answer) = request.send().map_err(|error| format!("no answer: {error}"))?;
    if !(200..300).contains(&status) {
        return Err(format!("the first message got {answer}"));
    }
    expect_in(&answer, ANSWER)?;
    server.stop()
}

/// The root file system of an image, and a volume for its data.
struct Container<'a> {
    folder: &'a Path,
    /// The words before the arguments: the program, after an emulator if there is one.
    program: Vec<String>,
}

impl<'a> Container<'a> {
    fn unpack(archive: &[u8], folder: &'a Path, emulator: &Emulator) -> Result<Self, String> {
        let unwritable = |error: std::io::Error| format!("cannot unpack the image: {error}");
        let root = folder.join("root");
        let layer = image::layer(archive)?;
        let mut layer = tar::Archive::new(layer.as_slice());
        layer.set_preserve_permissions(true);
        layer.unpack(&root).map_err(unwritable)?;
        std::fs::create_dir(folder.join("data")).map_err(unwritable)?;
        let mut program = vec!["/usr/bin/rondo".to_owned()];
        if let Some(emulator) = emulator {
            std::fs::copy(emulator, root.join("usr/bin/emulator")).map_err(unwritable)?;
            program.insert(0, "/usr/bin/emulator".to_owned());
        }
        Ok(Self { folder, program })
    }

    /// A command of the program in the container, with the environment of the image.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--", "sh", "-c", ENTER, "sh"]);
        command.args(&self.program).args(args);
        command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
        command.env("IMAGE_ROOT", self.folder.join("root")).env("IMAGE_DATA", self.folder.join("data"));
        command.env("IMAGE_USER", USER.to_string());
        command.env("RONDO_DATA", "/data").env("TMPDIR", "/data");
        command
    }
}

/// A server that is killed when it is dropped.
struct RunningServer {
    process: Child,
    log: std::path::PathBuf,
}

impl RunningServer {
    fn start(mut command: Command, folder: &Path) -> Result<Self, String> {
        let log = folder.join("log");
        let file = std::fs::File::create(&log).map_err(|error| format!("cannot make a log: {error}"))?;
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn();
        let process = process.map_err(|error| format!("cannot run {command:?}: {error}"))?;
        Ok(Self { process, log })
    }

    fn wait_until_ready(&mut self, port: u16) -> Result<(), String> {
        let begin = Instant::now();
        let request = LoopbackRequest { port, path: "/readyz", key: None, body: None };
        loop {
            if request.send().is_ok_and(|(status, _)| status == 200) {
                return Ok(());
            }
            let ended = self.process.try_wait().is_ok_and(|status| status.is_some());
            if ended || begin.elapsed() > PATIENCE {
                return Err(format!("the server does not start: {}", self.log_text()));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Asks the server to stop. It must end by itself, and have said that it serves the embedded apps.
    fn stop(mut self) -> Result<(), String> {
        let id = self.process.id().to_string();
        run(Command::new("kill").args(["-TERM", &id]))?;
        let ended =
            self.process.wait().map_err(|error| format!("the server cannot be waited for: {error}"))?;
        let log = self.log_text();
        if !ended.success() {
            return Err(format!("the server ended with {ended}: {log}"));
        }
        expect_in(&log, "the built-in apps are served")
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // Both fail if it has ended, which is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The API of a provider, as far as one short answer needs it.
fn scripted_answer(path: &str) -> LoopbackAnswer {
    if !path.ends_with("/chat/completions") {
        return (404, "application/json", b"{}".to_vec());
    }
    let piece = |delta: &str, reason: &str| {
        format!(
            "data: {{\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"scripted\",\"choices\":\
             [{{\"index\":0,\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n"
        )
    };
    let said = format!("{{\"role\":\"assistant\",\"content\":\"{ANSWER}\"}}");
    let stream = format!("{}{}data: [DONE]\n\n", piece(&said, "null"), piece("{}", "\"stop\""));
    (200, "text/event-stream", stream.into_bytes())
}
