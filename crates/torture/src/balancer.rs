//! The balancer between clients and the nodes: it knows the addresses of all nodes, and which of them are out of
//! service.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How long a client waits for a node that is out of service.
const LINGER: Duration = Duration::from_secs(1);

/// Cheap to clone. Nodes are known by their numbers, from 0.
#[derive(Clone)]
pub(crate) struct Balancer {
    nodes: Arc<[BalancedNode]>,
}

struct BalancedNode {
    /// `http://127.0.0.1:PORT`, the same after every restart.
    url: String,
    in_service: watch::Sender<bool>,
}

impl Balancer {
    /// All nodes are in service at first.
    pub(crate) fn new(urls: impl IntoIterator<Item = String>) -> Self {
        let node = |url| BalancedNode { url, in_service: watch::Sender::new(true) };
        Self { nodes: urls.into_iter().map(node).collect() }
    }

    /// Whether there is more than one node.
    pub(crate) fn has_several(&self) -> bool {
        self.nodes.len() > 1
    }

    pub(crate) fn url(&self, node: usize) -> &str {
        self.nodes.get(node).map_or("", |node| node.url.as_str())
    }

    pub(crate) fn take_out(&self, node: usize) {
        self.set(node, false);
    }

    pub(crate) fn put_back(&self, node: usize) {
        self.set(node, true);
    }

    fn set(&self, node: usize, is_in_service: bool) {
        if let Some(node) = self.nodes.get(node) {
            node.in_service.send_replace(is_in_service);
        }
    }

    /// The nodes in the order in which a request tries them. If none is in service, any may be asked.
    pub(crate) fn order(&self, first: usize) -> Vec<usize> {
        let count = self.nodes.len().max(1);
        let all = || (0..self.nodes.len()).map(|place| (first % count + place) % count);
        let is_in_service =
            |node: &usize| self.nodes.get(*node).is_some_and(|node| *node.in_service.borrow());
        let serving: Vec<usize> = all().filter(is_in_service).collect();
        if serving.is_empty() { all().collect() } else { serving }
    }

    /// Returns when it makes no sense to wait any longer for an answer of this node. If there is no other node to ask,
    /// the wait continues.
    pub(crate) async fn give_up(&self, node: usize) {
        let Some(node) = self.nodes.get(node).filter(|_| self.has_several()) else {
            return std::future::pending().await;
        };
        let mut in_service = node.in_service.subscribe();
        loop {
            let is_out = in_service.wait_for(|is_in_service| !is_in_service).await.is_ok();
            tokio::time::sleep(LINGER).await;
            if is_out && !*in_service.borrow_and_update() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_to_nodes_in_service_first_to_last() {
        let balancer = Balancer::new(["a", "b", "c"].map(str::to_owned));
        assert_eq!((balancer.order(1), balancer.order(5)), (vec![1, 2, 0], vec![2, 0, 1]));
        balancer.take_out(2);
        assert_eq!((balancer.order(1), balancer.order(2)), (vec![1, 0], vec![0, 1]));
        balancer.take_out(0);
        balancer.take_out(1);
        assert_eq!(balancer.order(1), [1, 2, 0], "somebody has to be asked");
        balancer.put_back(0);
        assert_eq!(balancer.order(1), [0]);
        assert_eq!(balancer.url(1), "b");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_node_that_stays_out() {
        let balancer = Balancer::new(["a", "b"].map(str::to_owned));
        let waits = async |node| tokio::time::timeout(LINGER * 10, balancer.give_up(node)).await.is_err();
        assert!(waits(0).await, "it is in service");
        balancer.take_out(0);
        assert!(!waits(0).await && waits(1).await);
        let alone = Balancer::new(["a".to_owned()]);
        alone.take_out(0);
        assert!(tokio::time::timeout(LINGER * 10, alone.give_up(0)).await.is_err(), "there is no other");
    }
}
