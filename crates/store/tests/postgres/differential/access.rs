//! Operations on keys, sessions, the audit of admins, MCP tools and credentials.

use protocol::{AppId, Ids as _, KeyId, KeyView, Right, Rights, SessionId, SessionView};
use store::{MAX_CREDENTIAL_BYTES, McpOffer, NewKeyRotation};

use super::generator::ComparedPlan;

impl ComparedPlan {
    fn some_key(&mut self) -> KeyId {
        self.pick(|known| &known.keys).unwrap_or_else(|| KeyId::new(self.ids.fresh()))
    }

    fn some_apps(&mut self) -> Option<Vec<AppId>> {
        if self.once_in(3) { Some(vec![self.app()]) } else { None }
    }

    fn rights(&mut self) -> Rights {
        self.one_of(&[Rights::USER, Rights::of([Right::Read]), Rights::of([Right::Admin, Right::Read])])
    }

    pub(super) fn new_key(&mut self) -> (KeyView, [u8; 32]) {
        let rights = self.rights();
        let mut hash = [0; 32];
        hash[..16].copy_from_slice(self.ids.fresh().as_bytes());
        self.known.hashes.push(hash);
        let view = KeyView {
            id: KeyId::new(self.ids.fresh()),
            user: self.user().to_string(),
            app: self.maybe(|plan| plan.app().to_string()),
            admin: rights.has(Right::Admin),
            rights,
            acts_for: if self.once_in(4) { Some(protocol::ActsFor::Any) } else { None },
            created_at: self.now(),
            expires_at: self.maybe(ComparedPlan::some_moment),
            used_at: None,
            revoked_at: None,
            made_by: self.maybe(ComparedPlan::name),
            revoked_by: None,
            replaced_by: None,
        };
        (view, hash)
    }

    fn known_hash(&mut self) -> [u8; 32] {
        self.pick(|known| &known.hashes).unwrap_or([9; 32])
    }
}

pub(super) async fn add_key(plan: &mut ComparedPlan) {
    let (view, hash) = plan.new_key();
    let hash = if plan.once_in(30) { plan.known_hash() } else { hash };
    let once = plan.once().map(|once| (plan.scope(), once));
    if ask!(plan, add_key(view.clone(), hash, once.clone())).is_some() {
        plan.known.keys.push(view.id);
    }
}

pub(super) async fn change_key(plan: &mut ComparedPlan) {
    let (id, apps, by) = (plan.some_key(), plan.some_apps(), plan.loose_name());
    match plan.random.u32(..8) {
        0 | 1 => {
            ask!(plan, revoke_key(id, apps.clone(), by.clone()));
        }
        2 => {
            let at = plan.some_moment();
            ask!(plan, note_key_use(id, at));
        }
        3 if plan.once_in(5) => drop(ask!(plan, remove_keys(by.clone()))),
        _ => {
            let (new, hash) = plan.new_key();
            let rotation = NewKeyRotation {
                old: id,
                only_apps: apps,
                new,
                hash,
                old_ends_at: plan.some_moment(),
                once: plan.once().map(|once| (plan.scope(), once)),
            };
            if let Some(Some(rotated)) = ask!(plan, rotate_key(rotation.clone())) {
                plan.known.keys.push(rotated.id);
            }
        }
    }
}

pub(super) async fn session(plan: &mut ComparedPlan) {
    let id = SessionId::new(plan.ids.fresh());
    let (_, hash) = plan.new_key();
    let seconds = plan.random.i64(1..200_000);
    let session = SessionView {
        id,
        user: plan.user().to_string(),
        apps: plan.maybe(|plan| vec![plan.app().to_string()]),
        rights: plan.rights(),
        key: plan.maybe(ComparedPlan::some_key),
        issuer: plan.maybe(ComparedPlan::name),
        created_at: plan.now(),
        expires_at: plan.in_seconds(seconds),
    };
    let actor = plan.maybe(ComparedPlan::name);
    if ask!(plan, add_session(session.clone(), hash, actor.clone())).is_some() {
        plan.known.sessions.push(id);
    }
    if plan.once_in(3) {
        let known = plan.pick(|known| &known.sessions).unwrap_or(id);
        let (apps, by) = (plan.some_apps(), plan.maybe(ComparedPlan::name));
        ask!(plan, end_session(known, apps.clone(), by.clone()));
    }
}

pub(super) async fn look(plan: &mut ComparedPlan) {
    let (apps, at, hash) = (plan.some_apps(), plan.some_moment(), plan.known_hash());
    match plan.random.u32(..7) {
        0 => drop(ask!(plan, key_by_hash(hash))),
        1 => {
            ask!(plan, has_keys());
            ask!(plan, has_good_keys(at));
        }
        2 => {
            let id = plan.some_key();
            let page = plan.page_from(Some(id));
            ask!(plan, keys(apps.clone(), page));
        }
        3 | 4 => drop(ask!(plan, session_by_hash(hash))),
        5 => {
            let id = plan.pick(|known| &known.sessions);
            let page = plan.page_from(id);
            ask!(plan, sessions(apps.clone(), page, at));
        }
        _ => {
            let after = plan.maybe(|plan| plan.random.u64(..20));
            let page = plan.page(after);
            ask!(plan, admin_audit(apps.clone(), page));
        }
    }
}

pub(super) async fn mcp(plan: &mut ComparedPlan) {
    let (app, server) = (plan.app(), plan.one_of(&["mail", "it's a server"]));
    let mut known = ask!(plan, mcp_tools(&app)).unwrap_or_default();
    known.retain(|row| row.server == server);
    let tool = known.first().map_or_else(|| plan.name(), |row| row.tool.clone());
    let hash = known.first().map_or_else(|| plan.name(), |row| row.hash.clone());
    let by = plan.loose_name();
    match plan.random.u32(..4) {
        0 => {
            let hash = if plan.once_in(3) { plan.name() } else { hash };
            ask!(plan, approve_mcp_tools(&app, server, vec![(tool.clone(), hash.clone())], &by));
        }
        1 => {
            let tool = if plan.once_in(3) { plan.name() } else { tool };
            ask!(plan, revoke_mcp_tools(&app, server, vec![tool.clone()], &by));
        }
        _ => {
            let offer = |plan: &mut ComparedPlan| McpOffer {
                tool: plan.bounded_text(store::MAX_MCP_NAME_BYTES).replace('\0', "zero"),
                definition: plan.json(),
                hash: plan.name(),
            };
            let offered: Vec<McpOffer> = (0..plan.random.usize(..4)).map(|_| offer(plan)).collect();
            ask!(plan, put_mcp_tools(&app, server, offered.clone()));
        }
    }
}

pub(super) async fn credential(plan: &mut ComparedPlan) {
    let (scope, name, once) = (plan.scope(), plan.name(), plan.once());
    match plan.random.u32(..6) {
        0 => drop(ask!(plan, credentials(&scope))),
        1 => drop(ask!(plan, credential(&scope, &name))),
        2 => {
            let known = ask!(plan, credentials(&scope)).unwrap_or_default();
            let name = known.first().filter(|_| plan.random.bool()).map_or(name, |row| row.name.clone());
            ask!(plan, delete_credential(&scope, &name, once.clone()));
        }
        _ => {
            let size = if plan.once_in(12) { MAX_CREDENTIAL_BYTES + 1 } else { 20 };
            let sealed = plan.bytes(size);
            ask!(plan, put_credential(&scope, &name, sealed.clone(), once.clone()));
        }
    }
}
