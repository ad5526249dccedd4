//! Mozilla's root certificates, for images without an operating system.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// Characters of a line in a PEM file.
const LINE: usize = 64;

/// All root certificates in one PEM file. The version of the crate in `Cargo.lock` decides which.
pub(crate) fn bundle() -> String {
    TLS_SERVER_ROOT_CERTS.iter().map(|certificate| pem(certificate)).collect()
}

fn pem(certificate: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for (index, letter) in STANDARD.encode(certificate).chars().enumerate() {
        if index > 0 && index % LINE == 0 {
            text.push('\n');
        }
        text.push(letter);
    }
    text.push_str("\n-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_have_lines_of_64_characters() {
        let text = pem(&[0; 49]);
        let lengths: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(lengths, [27, 64, 4, 25]);
        let bundle = bundle();
        assert!(bundle.matches("BEGIN CERTIFICATE").count() > 100, "Mozilla trusts more than a hundred");
        assert!(bundle.lines().all(|line| line.len() <= LINE));
    }
}
