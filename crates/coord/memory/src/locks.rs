//! Locks: who holds them until when, and the last fence of each name for ever.

use std::collections::BTreeMap;

use esker_coord_api::{LocalName, LockAttempt, Name, NextTime};

/// By name.
#[derive(Clone, Default)]
pub(crate) struct Locks(BTreeMap<Name, Row>);

#[derive(Clone, Default)]
struct Row {
    /// The last one given.
    fence: i64,
    holder: Option<Holder>,
}

/// Who holds a lock, lapsed or not.
#[derive(Clone)]
pub(crate) struct Holder {
    pub(crate) owner: LocalName,
    pub(crate) fence: i64,
    /// The first second in which the name can be taken again.
    pub(crate) expires_at: i64,
}

impl Locks {
    pub(crate) fn take(&mut self, name: &Name, owner: LocalName, ttl: i64, now: i64) -> LockAttempt {
        let row = self.0.entry(name.clone()).or_default();
        match &row.holder {
            Some(holder) if holder.expires_at > now => {
                if holder.owner == owner {
                    LockAttempt::Held {
                        fence: holder.fence,
                        until: NextTime::seen(holder.expires_at, now),
                    }
                } else {
                    LockAttempt::Lost(NextTime::seen(holder.expires_at, now))
                }
            }
            _ => {
                row.fence += 1;
                let (fence, expires_at) = (row.fence, now.saturating_add(ttl));
                row.holder = Some(Holder {
                    owner,
                    fence,
                    expires_at,
                });
                LockAttempt::Held {
                    fence,
                    until: NextTime::seen(expires_at, now),
                }
            }
        }
    }

    pub(crate) fn renew(&mut self, name: &Name, fence: i64, ttl: i64, now: i64) -> bool {
        let Some(row) = self.0.get_mut(name) else {
            return false;
        };
        match &mut row.holder {
            Some(holder) if holder.fence == fence && holder.expires_at > now => {
                holder.expires_at = now.saturating_add(ttl);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn release(&mut self, name: &Name, fence: i64, now: i64) -> bool {
        let held = self.is_held(name, fence, now);
        if held && let Some(row) = self.0.get_mut(name) {
            row.holder = None;
        }
        held
    }

    /// Whether the lock is held under this fence, and has not lapsed.
    pub(crate) fn is_held(&self, name: &Name, fence: i64, now: i64) -> bool {
        self.held(now)
            .any(|(held, holder)| held == name && holder.fence == fence)
    }

    /// The locks that are held now.
    pub(crate) fn held(&self, now: i64) -> impl Iterator<Item = (&Name, &Holder)> {
        let holders = self
            .0
            .iter()
            .filter_map(|(name, row)| Some((name, row.holder.as_ref()?)));
        holders.filter(move |(_, holder)| holder.expires_at > now)
    }
}
