//! The client of AG-UI.

use crate::{check_all, check_kill, node};

const AG_UI: &str = "AG-UI";

#[tokio::test]
async fn ag_ui_with_its_own_client() {
    check_all(AG_UI, |url| node("ag_ui.mjs", &["all", url])).await;
}

#[tokio::test]
async fn a_run_survives_the_death_of_its_server() {
    check_kill(AG_UI, |url| node("ag_ui.mjs", &["kill", url])).await;
}
