//! Pairs of files, good and bad.

use std::fs;

use protocol::{Clock, SystemClock};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;

use super::*;

/// A folder with a certificate and its key.
struct Folder {
    folder: TempDir,
    files: TlsFiles,
}

impl Folder {
    fn with(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = TlsFiles { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
        let (mut params, key) =
            (CertificateParams::new(["localhost".to_owned()]).unwrap(), KeyPair::generate().unwrap());
        change(&mut params);
        fs::write(&files.cert, params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        Self { folder, files }
    }

    /// The error, with the folder left out of its paths.
    fn refusal(&self) -> String {
        let error = TlsPair::load(&self.files, SystemClock.now()).unwrap_err().to_string();
        error.replace(&format!("{}/", self.folder.path().display()), "")
    }
}

#[test]
fn a_good_pair_tells_its_end_and_its_fingerprint() {
    let folder = Folder::with(|params| params.not_after = date_time_ymd(2060, 2, 3));
    let pair = TlsPair::load(&folder.files, SystemClock.now()).unwrap();
    assert_eq!(pair.end().to_string(), "2060-02-03T00:00:00Z");
    assert_eq!(pair.fingerprint(), certificate_fingerprint(&folder.files.cert).unwrap());
    assert!(pair.fingerprint().len() == 64 && pair.fingerprint().chars().all(|c| c.is_ascii_hexdigit()));
}

#[test]
fn a_bad_pair_is_refused_with_a_remedy() {
    let folder = Folder::with(|_| {});
    fs::write(&folder.files.key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let expected = "tls.key: key.pem is not the key of the certificate in cert.pem; name the two files that were made \
                    together";
    assert_eq!(folder.refusal(), expected);

    fs::write(
        &folder.files.key,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    assert!(folder.refusal().starts_with("tls.key: key.pem contains no private key without a password; "));

    fs::remove_file(&folder.files.key).unwrap();
    let expected = "tls.key: key.pem cannot be read: No such file or directory (os error 2); correct the path, or let \
                    the server's user read the file";
    assert_eq!(folder.refusal(), expected);

    fs::write(&folder.files.cert, "hello").unwrap();
    assert!(folder.refusal().starts_with("tls.cert: cert.pem contains no certificate; "));
    fs::write(&folder.files.cert, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    assert!(
        folder.refusal().starts_with("tls.cert: cert.pem cannot be used: it is not an X.509 certificate; ")
    );
    fs::write(&folder.files.cert, vec![b'x'; 1024 * 1024 + 1]).unwrap();
    assert_eq!(folder.refusal(), "tls.cert: cert.pem has more than 1048576 bytes; name a PEM file");
}

#[test]
fn a_certificate_is_good_in_its_time_only() {
    let ended = Folder::with(|params| params.not_after = date_time_ymd(2024, 2, 3));
    assert_eq!(
        ended.refusal(),
        "tls.cert: the certificate in cert.pem ended at 2024-02-03T00:00:00Z; renew it"
    );
    let early = Folder::with(|params| params.not_before = date_time_ymd(2090, 2, 3));
    assert!(early.refusal().contains("is valid only from 2090-02-03T00:00:00Z"), "{}", early.refusal());
}
