//! Many connections of one address.

use super::*;

#[tokio::test]
async fn a_connection_too_many_is_closed_at_once() {
    let limits = ServerLimits { max_connections_per_address: Some(2), ..ServerLimits::default() };
    let server = Server::start(hello(), limits).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut client = server.get("/").await;
        read_until(&mut client, "hello\n").await;
        open.push(client);
    }
    let mut refused = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(timeout(PATIENCE, refused.read(&mut [0])).await.unwrap().unwrap(), 0);
    open.pop();
    // The server sees the end of a connection a moment later.
    let served = async {
        loop {
            let mut client = server.get("/").await;
            let mut line = String::new();
            while client.read_line(&mut line).await.is_ok_and(|count| count > 0) && !line.ends_with("hello\n")
            {
            }
            if line.ends_with("hello\n") {
                return;
            }
        }
    };
    timeout(PATIENCE, served).await.unwrap();
}

#[tokio::test]
async fn loopback_has_no_limit_of_its_own() {
    let server = Server::start(hello(), ServerLimits::default()).await;
    let mut open = Vec::new();
    for _ in 0..1100 {
        open.push(TcpStream::connect(server.address).await.unwrap());
    }
    let mut last = server.get("/").await;
    read_until(&mut last, "hello\n").await;
}
