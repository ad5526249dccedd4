//! Tries `deploy/nginx.conf`: which node gets the requests of which user, and what happens when nodes fail.

use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::nginx_trial::{TrialAnswer, TrialProxy, ask};
use super::stub_node::{EVENTS, NodeMode, StubNode};

const NODES: usize = 3;

/// Enough that a fair ring gives each node many of them.
const USERS: usize = 200;

/// The fewest users of a node on a fair ring. The ring depends on the ports, which differ from trial to trial.
const FEWEST_USERS: usize = 20;

/// The users that ask while all nodes refuse.
const REFUSED_USERS: usize = 20;

/// The longest wait until a node that works again gets its users back. nginx leaves it out for two seconds.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// A header that makes a request repeatable.
const KEY: &str = "Idempotency-Key: 7c1f";

struct RingTrial {
    nodes: Vec<StubNode>,
    proxy: TrialProxy,
    /// The node of each user while all nodes work.
    homes: Vec<usize>,
}

/// The summary, or what is wrong.
pub(super) fn run(root: &Path) -> Result<String, String> {
    let nodes = (0..NODES).map(|_| StubNode::start()).collect::<Result<Vec<_>, _>>()?;
    let addresses: Vec<_> = nodes.iter().map(|node| node.address).collect();
    let proxy = TrialProxy::start(root, &addresses)?;
    let mut trial = RingTrial { nodes, proxy, homes: Vec::new() };
    trial.homes = trial.find_homes()?;
    let counts = trial.users_stay_and_spread()?;
    trial.proofs_name_the_user()?;
    trial.users_of_a_dead_node_move_and_return()?;
    trial.refusals_are_passed_on()?;
    trial.no_request_is_repeated_that_may_have_an_effect()?;
    trial.refusals_of_all_say_when_to_try_again()?;
    trial.events_are_not_held_back()?;
    trial.plain_requests_are_redirected()?;
    Ok(format!(
        "{USERS} users are spread over the nodes as {counts:?}, and find others if a node is dead or refuses"
    ))
}

fn key_of(user: usize) -> String {
    format!("Authorization: Bearer rondo_{user}")
}

impl RingTrial {
    /// The node that has answered.
    fn node_of(&self, answer: &TrialAnswer) -> Result<usize, String> {
        let found = self.nodes.iter().position(|node| node.address.to_string() == answer.body);
        found.filter(|_| answer.status == 200).ok_or_else(|| format!("no node has answered: {answer:?}"))
    }

    fn node_for(&self, request: &str, lines: &[&str]) -> Result<usize, String> {
        self.node_of(&self.proxy.ask(request, lines)?)
    }

    fn find_homes(&self) -> Result<Vec<usize>, String> {
        (0..USERS).map(|user| self.node_for("GET /v1/apps", &[&key_of(user)])).collect()
    }

    /// A user of this node.
    fn user_of(&self, node: usize) -> Result<usize, String> {
        self.homes.iter().position(|home| *home == node).ok_or_else(|| format!("node {node} has no user"))
    }

    fn node(&self, node: usize) -> Result<&StubNode, String> {
        self.nodes.get(node).ok_or_else(|| format!("there is no node {node}"))
    }

    /// Requests that all nodes have seen.
    fn requests(&self) -> usize {
        self.nodes.iter().map(StubNode::requests).sum()
    }

    fn set_all(&self, mode: NodeMode) {
        self.nodes.iter().for_each(|node| node.set_mode(mode));
    }

    /// Waits until every user is at home again. For a moment, nginx may still leave all nodes out.
    fn await_homes(&self) -> Result<(), String> {
        let begin = Instant::now();
        while self.find_homes().as_ref() != Ok(&self.homes) {
            if begin.elapsed() > PATIENCE {
                return Err("users do not return to a node that works again".to_owned());
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn users_stay_and_spread(&self) -> Result<Vec<usize>, String> {
        for (user, home) in self.homes.iter().enumerate() {
            let asked = self.node_for("GET /v1/apps", &[&key_of(user)])?;
            require(asked == *home, "a user's second request goes to another node")?;
            let posted = self.node_for("POST /v1/apps/studio/runs", &[&key_of(user), KEY])?;
            require(posted == *home, "a POST goes to another node than a GET of its user")?;
        }
        let count = |node| self.homes.iter().filter(|home| **home == node).count();
        let counts: Vec<usize> = (0..NODES).map(count).collect();
        require(
            counts.iter().all(|count| *count >= FEWEST_USERS),
            &format!("users are not spread over the nodes: {counts:?}"),
        )?;
        Ok(counts)
    }

    /// Sessions of browsers and users of a back end count as users, too.
    fn proofs_name_the_user(&self) -> Result<(), String> {
        let (mut by_session, mut by_name) = (Vec::new(), Vec::new());
        for user in 0..USERS {
            let session = format!("Cookie: theme=dark; __Host-rondo_session=secret{user}");
            let with_other_cookies =
                format!("Cookie: __Host-rondo_session=secret{user}; theme=light; visits=7");
            let home = self.node_for("GET /v1/apps", &[&session])?;
            let again = self.node_for("GET /v1/apps", &[&with_other_cookies])?;
            require(home == again, "another cookie moves the session of a browser to another node")?;
            by_session.push(home);
            let name = format!("X-Rondo-User: user-{user}");
            let home = self.node_for("GET /v1/apps", &[&name, &key_of(0)])?;
            let again = self.node_for("GET /v1/apps", &[&name, &key_of(1)])?;
            require(home == again, "a user of a back end moves with the acting key")?;
            by_name.push(home);
        }
        for (homes, what) in [(by_session, "sessions"), (by_name, "users of one acting key")] {
            let all_have_some =
                (0..NODES).all(|node| homes.iter().filter(|home| **home == node).count() >= FEWEST_USERS);
            require(all_have_some, &format!("{what} are not spread over the nodes"))?;
        }
        let stranger = self.node_for("GET /healthz", &[])?;
        require(stranger == self.node_for("GET /healthz", &[])?, "a client without a proof moves")
    }

    fn users_of_a_dead_node_move_and_return(&mut self) -> Result<(), String> {
        self.nodes.first_mut().ok_or("there are no nodes")?.stop();
        for (user, home) in self.homes.iter().enumerate() {
            // No key: nginx may send it to another node, because the dead one has not seen it.
            let reached = self.node_for("POST /v1/apps/studio/runs", &[&key_of(user)])?;
            require(
                (reached == *home) == (*home != 0),
                "a user of a living node moves when another node dies, or one of the dead node stays",
            )?;
        }
        self.nodes.first_mut().ok_or("there are no nodes")?.listen()?;
        self.await_homes()
    }

    fn refusals_are_passed_on(&self) -> Result<(), String> {
        self.node(0)?.set_mode(NodeMode::Refusing);
        let (key, before) = (key_of(self.user_of(0)?), self.requests());
        let refused = self.proxy.ask("POST /v1/apps/studio/runs", &[&key])?;
        require(refused.status == 503 && refused.body == "refused", "the refusal of a node is lost")?;
        require(refused.head.contains("\r\nretry-after: 2"), "the Retry-After of a node is lost")?;
        require(self.requests() == before + 1, "a POST without a key is repeated after a refusal")?;
        let reached = self.node_for("POST /v1/apps/studio/runs", &[&key, KEY])?;
        require(reached != 0, "a POST with a key stays with a node that refuses it")?;
        self.node(1)?.set_mode(NodeMode::Refusing);
        let reached = self.node_for("GET /v1/apps", &[&key_of(self.user_of(1)?)])?;
        require(reached == 2, "a GET stays with a node that refuses it")?;
        self.set_all(NodeMode::Serving);
        self.await_homes()
    }

    fn no_request_is_repeated_that_may_have_an_effect(&self) -> Result<(), String> {
        self.node(1)?.set_mode(NodeMode::Cutting);
        let before = self.requests();
        let lost = self.proxy.ask("POST /v1/apps/studio/runs", &[&key_of(self.user_of(1)?)])?;
        require(lost.status == 502, "a POST whose node died is not answered with 502")?;
        require(
            !lost.head.contains("retry-after"),
            "a client is asked to repeat what may have had an effect",
        )?;
        require(self.requests() == before + 1, "a POST that a node has seen is sent again")?;
        self.node(2)?.set_mode(NodeMode::Cutting);
        let reached = self.node_for("POST /v1/apps/studio/runs", &[&key_of(self.user_of(2)?), KEY])?;
        require(reached == 0, "a POST with a key did not find another node")?;
        self.set_all(NodeMode::Serving);
        self.await_homes()
    }

    /// As when the database is away.
    fn refusals_of_all_say_when_to_try_again(&self) -> Result<(), String> {
        self.set_all(NodeMode::Refusing);
        for user in 0..REFUSED_USERS {
            for (request, lines) in
                [("GET /v1/apps", ""), ("POST /v1/runs", KEY), ("POST /v1/runs", "X: none")]
            {
                let lines =
                    if lines.is_empty() { vec![key_of(user)] } else { vec![key_of(user), lines.into()] };
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                let answer = self.proxy.ask(request, &lines)?;
                let is_good = answer.status == 503 && answer.head.contains("\r\nretry-after: ");
                require(
                    is_good,
                    &format!("{request} gets no 503 with Retry-After if all refuse: {answer:?}"),
                )?;
            }
        }
        self.set_all(NodeMode::Serving);
        self.await_homes()
    }

    /// The second event comes only after the first was read.
    fn events_are_not_held_back(&self) -> Result<(), String> {
        let user = self.user_of(2)?;
        let mut stream = self.proxy.open(&format!("GET {EVENTS}"), &[&key_of(user)])?;
        let (mut seen, mut piece) = (Vec::new(), [0; 1024]);
        while !String::from_utf8_lossy(&seen).contains("data: first") {
            let count = stream.read(&mut piece).map_err(|error| format!("an event is held back: {error}"))?;
            require(count > 0, "an event stream ends before its first event")?;
            seen.extend(piece.iter().take(count));
        }
        self.node(2)?.open_gate();
        stream.read_to_end(&mut seen).map_err(|error| format!("an event stream breaks: {error}"))?;
        require(String::from_utf8_lossy(&seen).contains("data: second"), "the second event is lost")
    }

    fn plain_requests_are_redirected(&self) -> Result<(), String> {
        let answer = ask(self.proxy.redirecting, "GET /v1/apps", &[])?;
        let is_good =
            answer.status == 301 && answer.head.contains("location: https://agents.example/v1/apps");
        require(is_good, &format!("a request without TLS is not sent to HTTPS: {answer:?}"))
    }
}

fn require(is_so: bool, otherwise: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(format!("deploy/nginx.conf: {otherwise}")) }
}
