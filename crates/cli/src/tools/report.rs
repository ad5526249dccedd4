//! The report of an import: its tools, what is missing, and what to do next.

use std::fmt::Write;
use std::net::IpAddr;

use protocol::Effect;
use reqwest::Url;

use super::openapi::ImportedTools;
use crate::CommandResult;
use crate::config::{self, Config};
use crate::terminal_text::{count_of, first_lines, printable};

/// Notes that are told.
const MAX_NOTES: usize = 100;

/// Ports that tools may reach on every public host.
const PUBLIC_PORTS: [u16; 2] = [80, 443];

/// Endings of names that only an own network knows.
const OWN_ENDINGS: [&str; 5] = [".local", ".internal", ".lan", ".home.arpa", ".localhost"];

/// `place` says where the tools are, and `next` what to do then.
pub(super) fn report(
    config: &Config,
    imported: &ImportedTools,
    place: &str,
    next: &str,
) -> CommandResult<String> {
    let mut text = String::new();
    let count = count_of(imported.tools.len(), "tool");
    writeln!(text, "{count}{place}:")?;
    let width = imported.tools.iter().map(|tool| tool.name.len()).max().unwrap_or_default();
    for tool in &imported.tools {
        writeln!(text, "  {:<width$}  {:<12}  {}", tool.name, tool.effect.name(), tool.line)?;
    }
    if imported.tools.iter().any(|tool| tool.effect == Effect::Irreversible) {
        writeln!(
            text,
            "irreversible tools ask the user for approval; if a tool is not irreversible, correct its effect"
        )?;
    }
    let left_out = imported.left_out.iter().map(|(name, reason)| format!("{name}: {reason}"));
    list(&mut text, "left out:", left_out.collect())?;
    let notes = imported.notes().map(|(name, note)| format!("{name}: {note}"));
    list(&mut text, "to know:", notes.collect())?;
    secrets(&mut text, config, imported)?;
    hosts(&mut text, imported)?;
    writeln!(text, "next: {next}")?;
    Ok(printable(&text).into_owned())
}

fn list(text: &mut String, title: &str, lines: Vec<String>) -> CommandResult {
    if !lines.is_empty() {
        writeln!(text, "{title}\n  {}", first_lines(lines, MAX_NOTES).join("\n  "))?;
    }
    Ok(())
}

fn secrets(text: &mut String, config: &Config, imported: &ImportedTools) -> CommandResult {
    for (name, (holds, origins)) in imported.secrets() {
        let origins = origins.into_iter().collect::<Vec<_>>().join(" and ");
        let variable = format!("RONDO_SECRET_{}", name.to_uppercase());
        let is_set = config.outside.secrets.contains_key(name)
            || config::process_environment(&variable).is_some_and(|value| !value.trim().is_empty());
        if is_set {
            writeln!(text, "secret {name}: is set already; make sure that it is meant for {origins}")?;
        } else {
            writeln!(
                text,
                "secret {name}: set {variable} to {holds}, or add [secrets.{name}] to rondo.toml; it is sent to {origins}"
            )?;
        }
    }
    Ok(())
}

/// Hosts that tools may not reach unless the operator says so.
fn hosts(text: &mut String, imported: &ImportedTools) -> CommandResult {
    for origin in imported.origins() {
        if let Some(entry) = to_allow(origin) {
            writeln!(
                text,
                "host {entry}: is not public, or its port is not; set RONDO_EGRESS_ALLOW={entry}, or add it to allow under \
                 [egress] in rondo.toml"
            )?;
        }
    }
    Ok(())
}

/// The entry for the list of hosts, for a host that would be refused without it.
fn to_allow(origin: &str) -> Option<String> {
    let url = Url::parse(origin).ok()?;
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    let is_own = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => is_own_address(address),
        Err(_) => !host.contains('.') || OWN_ENDINGS.iter().any(|ending| host.ends_with(ending)),
    };
    (is_own || !PUBLIC_PORTS.contains(&port)).then(|| format!("{host}:{port}"))
}

fn is_own_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => {
            v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_unspecified()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_not_public_have_to_be_allowed() {
        for public in ["https://api.example.com", "http://example.org", "https://8.8.8.8"] {
            assert_eq!(to_allow(public), None, "{public}");
        }
        let own = [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://[::1]:9", "[::1]:9"),
            ("https://10.0.0.7", "10.0.0.7:443"),
            ("http://tickets", "tickets:80"),
            ("https://wiki.internal", "wiki.internal:443"),
            ("https://api.example.com:8443", "api.example.com:8443"),
        ];
        for (origin, entry) in own {
            assert_eq!(to_allow(origin).as_deref(), Some(entry));
        }
    }
}
