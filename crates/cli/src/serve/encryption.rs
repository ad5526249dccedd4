//! The server's certificate at the start and at SIGHUP, and the rule about addresses that others can reach.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use protocol::{Clock, SystemClock};
use server::{ServerTls, TlsFileError, TlsFiles, TlsPair};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::CommandResult;
use crate::config::Config;
use crate::control::ControlFile;

/// A certificate that ends sooner than this is told of.
const END_NOTICE: SignedDuration = SignedDuration::from_hours(14 * 24);

/// Keys travel with every request, so no other machine may be able to read requests on their way.
pub(crate) fn require_encryption(config: &Config) -> CommandResult {
    let proxying = &config.server.proxying;
    let is_encrypted = config.tls.is_some()
        || config.server.proxying.behind_proxy
        || proxying.public_urls.iter().any(|url| url.is_tls());
    if config.listen.ip().is_loopback() || is_encrypted {
        return Ok(());
    }
    Err(format!(
        "other machines can reach {}, and their requests would not be encrypted: write cert and key under \
         [tls] in rondo.toml (RONDO_TLS_CERT, RONDO_TLS_KEY), or, if a proxy with TLS is in front of this \
         server, write behind_proxy = true under [server] (RONDO_BEHIND_PROXY=true), or listen on 127.0.0.1",
        config.listen
    )
    .into())
}

/// Says that a certificate ends soon.
pub(crate) fn end_notice(pair: &TlsPair, now: Timestamp) -> Option<String> {
    let left = pair.end().duration_since(now);
    (left < END_NOTICE).then(|| {
        let days = left.as_hours() / 24;
        format!(
            "the certificate in tls.cert ends in {days} days, at {}; renew it, and send SIGHUP to the server",
            pair.end()
        )
    })
}

/// A certificate that is valid now. The log says if it ends soon.
fn load(files: &TlsFiles) -> Result<TlsPair, TlsFileError> {
    let now = SystemClock.now();
    let pair = TlsPair::load(files, now)?;
    if let Some(notice) = end_notice(&pair, now) {
        tracing::warn!("{notice}");
    }
    Ok(pair)
}

/// The server's certificate, and the place that it comes from.
pub(super) struct ServerCertificate {
    files: TlsFiles,
    pub(super) tls: ServerTls,
    pub(super) fingerprint: String,
}

impl ServerCertificate {
    /// None for a server without TLS.
    pub(super) fn of(config: &Config) -> Result<Option<Self>, TlsFileError> {
        let Some(files) = config.tls.clone() else { return Ok(None) };
        let pair = load(&files)?;
        let fingerprint = pair.fingerprint().to_owned();
        Ok(Some(Self { files, tls: ServerTls::new(pair), fingerprint }))
    }
}

/// Reads the certificate again at each SIGHUP. Without a handler, the signal would end the process.
pub(super) struct CertificateReload {
    hangup: Signal,
}

impl CertificateReload {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { hangup: signal(SignalKind::hangup())? })
    }

    /// Runs until it is dropped.
    pub(super) async fn run(
        mut self,
        mut certificate: Option<ServerCertificate>,
        mut control: ControlFile,
        data: PathBuf,
    ) {
        while self.hangup.recv().await.is_some() {
            match &mut certificate {
                Some(certificate) => certificate.reload(&mut control, &data).await,
                None => tracing::info!("SIGHUP: there is no certificate to read again, so nothing is done"),
            }
        }
        std::future::pending().await
    }
}

impl ServerCertificate {
    /// The files may be on a disk that does not answer, so another thread reads them.
    async fn reload(&mut self, control: &mut ControlFile, data: &Path) {
        let files = self.files.clone();
        let Ok(loaded) = tokio::task::spawn_blocking(move || load(&files)).await else { return };
        let pair = match loaded {
            Ok(pair) => pair,
            Err(error) => {
                return tracing::error!(
                    "SIGHUP: the certificate in use stays, because the new one is not good: {error}; then send \
                     SIGHUP again"
                );
            }
        };
        let (fingerprint, end) = (pair.fingerprint().to_owned(), pair.end());
        // Commands that begin now may meet the old certificate or the new one.
        control.certificates.insert(0, fingerprint.clone());
        publish(control, data);
        self.tls.replace(pair);
        control.certificates.truncate(1);
        publish(control, data);
        self.fingerprint = fingerprint;
        tracing::info!("SIGHUP: new connections get the certificate that was read now; it ends at {end}");
    }
}

fn publish(control: &ControlFile, data: &Path) {
    if let Err(error) = control.write(data) {
        tracing::error!(
            %error,
            "the new certificate is not in control.json, so commands on this machine cannot reach the server; \
             make room in the data folder, and send SIGHUP again"
        );
    }
}
