//! Facts about the connection of a request, which its handlers read.

use std::net::SocketAddr;

/// The address at the other end of a request's connection: the client, or a proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// Whether a request's connection is encrypted by this server. A proxy in front of it may encrypt on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IsTls(pub bool);
