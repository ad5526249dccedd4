//! The server's certificate and key: read from two files, checked, and exchanged while the server runs.

mod validity;

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ServerConfig;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error as RustlsError, InconsistentKeys};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;

use self::validity::Validity;

/// Bytes of a certificate file or a key file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Protocols over TLS, the best one first.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
/// The name of HTTP/2 in a TLS handshake.
pub(crate) const HTTP2: &[u8] = b"h2";

/// The files of the certificate and its key, both as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate first, then those between it and a root.
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// One of the two files, as the settings call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFileKind {
    Cert,
    Key,
}

impl fmt::Display for TlsFileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cert => "tls.cert",
            Self::Key => "tls.key",
        })
    }
}

/// The reason why a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFileError {
    #[error(
        "{kind}: {} cannot be read: {source}; correct the path, or let the server's user read the file",
        file.display()
    )]
    Unreadable { kind: TlsFileKind, file: PathBuf, source: io::Error },
    #[error("{kind}: {} has more than {MAX_FILE_BYTES} bytes; name a PEM file", file.display())]
    TooLarge { kind: TlsFileKind, file: PathBuf },
    #[error(
        "tls.cert: {} contains no certificate; name a PEM file with -----BEGIN CERTIFICATE-----",
        file.display()
    )]
    NoCertificate { file: PathBuf },
    #[error(
        "tls.key: {} contains no private key without a password; name a PEM file with -----BEGIN PRIVATE \
         KEY-----, or remove the password with `openssl pkey -in FILE -out NEW`",
        file.display()
    )]
    NoKey { file: PathBuf },
    #[error("{kind}: {} cannot be used: {reason}; get a new certificate with its key", file.display())]
    Invalid { kind: TlsFileKind, file: PathBuf, reason: String },
    #[error(
        "tls.key: {} is not the key of the certificate in {}; name the two files that were made together",
        key.display(),
        cert.display()
    )]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error("tls.cert: the certificate in {} ended at {end}; renew it", file.display())]
    Expired { file: PathBuf, end: Timestamp },
    #[error(
        "tls.cert: the certificate in {} is valid only from {begin}; check the clock of this machine, or \
         use the certificate later",
        file.display()
    )]
    NotYetValid { file: PathBuf, begin: Timestamp },
}

/// A certificate and its key that belong together and are valid.
#[derive(Debug, Clone)]
pub struct TlsPair {
    config: Arc<ServerConfig>,
    fingerprint: String,
    end: Timestamp,
}

impl TlsPair {
    pub fn load(files: &TlsFiles, now: Timestamp) -> Result<Self, TlsFileError> {
        let chain = certificates(&files.cert)?;
        let no_certificate = || TlsFileError::NoCertificate { file: files.cert.clone() };
        let leaf = chain.first().ok_or_else(no_certificate)?;
        let fingerprint = fingerprint(leaf);
        let Validity { begin, end } =
            Validity::of_certificate(leaf).ok_or_else(|| TlsFileError::Invalid {
                kind: TlsFileKind::Cert,
                file: files.cert.clone(),
                reason: "it is not an X.509 certificate".into(),
            })?;
        if now > end {
            return Err(TlsFileError::Expired { file: files.cert.clone(), end });
        }
        if now < begin {
            return Err(TlsFileError::NotYetValid { file: files.cert.clone(), begin });
        }
        let config = Arc::new(config(files, chain)?);
        Ok(Self { config, fingerprint, end })
    }

    /// The SHA-256 of the server's certificate, in hexadecimal.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The last moment at which the certificate is valid.
    pub fn end(&self) -> Timestamp {
        self.end
    }
}

/// The SHA-256 of the first certificate of a PEM file, in hexadecimal, valid or not.
pub fn certificate_fingerprint(cert: &Path) -> Result<String, TlsFileError> {
    let no_certificate = || TlsFileError::NoCertificate { file: cert.to_owned() };
    certificates(cert)?.first().map(|leaf| fingerprint(leaf)).ok_or_else(no_certificate)
}

/// The SHA-256 of a certificate, in hexadecimal.
pub fn fingerprint(certificate: &[u8]) -> String {
    use fmt::Write as _;
    Sha256::digest(certificate).iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// The certificate that new connections get. A clone is the same certificate, so that it can be exchanged from outside.
#[derive(Debug, Clone)]
pub struct ServerTls {
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

impl ServerTls {
    pub fn new(pair: TlsPair) -> Self {
        Self { config: Arc::new(RwLock::new(pair.config)) }
    }

    /// Connections that are open keep the certificate that they have.
    pub fn replace(&self, pair: TlsPair) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = pair.config;
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

/// A new configuration for each pair also forgets the sessions that the old one could resume.
fn config(files: &TlsFiles, chain: Vec<CertificateDer<'static>>) -> Result<ServerConfig, TlsFileError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let certified = certify(files, chain, &provider)?;
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| invalid(TlsFileKind::Cert, &files.cert, &error))?;
    let resolver = Arc::new(SingleCertAndKey::from(certified));
    let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    Ok(config)
}

fn certify(
    files: &TlsFiles,
    chain: Vec<CertificateDer<'static>>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsFileError> {
    let key = private_key(&files.key)?;
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|error| invalid(TlsFileKind::Key, &files.key, &error))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        // A key that cannot tell its public part is not known to be wrong.
        Ok(()) | Err(RustlsError::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(RustlsError::InconsistentKeys(_)) => {
            Err(TlsFileError::Mismatch { cert: files.cert.clone(), key: files.key.clone() })
        }
        Err(error) => Err(invalid(TlsFileKind::Cert, &files.cert, &error)),
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let text = read(TlsFileKind::Cert, file)?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>();
    certificates.map_err(|error| invalid(TlsFileKind::Cert, file, &error))
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    let key = PrivateKeyDer::pem_slice_iter(&read(TlsFileKind::Key, file)?).next();
    let key = key.ok_or_else(|| TlsFileError::NoKey { file: file.to_owned() })?;
    key.map_err(|error| invalid(TlsFileKind::Key, file, &error))
}

fn invalid(kind: TlsFileKind, file: &Path, reason: &impl ToString) -> TlsFileError {
    TlsFileError::Invalid { kind, file: file.to_owned(), reason: reason.to_string() }
}

fn read(kind: TlsFileKind, file: &Path) -> Result<Vec<u8>, TlsFileError> {
    let unreadable = |source| TlsFileError::Unreadable { kind, file: file.to_owned(), source };
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    let mut text = Vec::new();
    let length = opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
    if u64::try_from(length).is_ok_and(|length| length <= MAX_FILE_BYTES) {
        Ok(text)
    } else {
        Err(TlsFileError::TooLarge { kind, file: file.to_owned() })
    }
}

#[cfg(test)]
mod tests;
