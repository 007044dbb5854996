//! What the decision about an offered event asks of the file (see `esker_events_api::admission`).

use esker_coord_sqlite::{
    Error,
    rusqlite::{Connection, params},
};
use esker_events_api::{
    Address, Position,
    admission::{Facts, position},
    deletion::Targets,
};
use esker_nostr::{Canonical, Event, EventFields, EventId, PublicKey};

use crate::{
    keys::{self, Secret},
    remove::{fetch, parse_stored},
};

/// The writer's view, as facts.
pub(crate) struct FileFacts<'c> {
    pub(crate) sql: &'c Connection,
    pub(crate) secret: Secret,
}

impl FileFacts<'_> {
    /// The stored events that an index table has under a key, newest `seq` last.
    fn indexed(&self, statement: &str, key: i64) -> Result<Vec<i64>, Error> {
        let mut statement = self.sql.prepare_cached(statement)?;
        let found = statement
            .query_map(params![key], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        Ok(found)
    }

    /// The stored event with this id.
    pub(crate) fn by_id(&self, id: EventId) -> Result<Option<(i64, bytes::Bytes)>, Error> {
        for seq in self.indexed("SELECT seq FROM by_id WHERE place = ?1", keys::id_place(id))? {
            if let Some(json) = fetch(self.sql, seq)?.filter(|json| Canonical::new(json).id() == id) {
                return Ok(Some((seq, json)));
            }
        }
        Ok(None)
    }

    /// The stored version at an address.
    pub(crate) fn by_address(&self, address: &Address) -> Result<Option<(i64, bytes::Bytes)>, Error> {
        for seq in self.indexed(
            "SELECT seq FROM by_address WHERE address = ?1",
            self.secret.address(address),
        )? {
            let Some(json) = fetch(self.sql, seq)? else {
                continue;
            };
            if Address::of(&parse_stored(json.clone())?).as_ref() == Some(address) {
                return Ok(Some((seq, json)));
            }
        }
        Ok(None)
    }
}

impl Facts for FileFacts<'_> {
    type Error = Error;

    fn holds(&mut self, event: &Event) -> Result<bool, Error> {
        Ok(self.by_id(event.id())?.is_some())
    }

    fn vanished_at(&mut self, author: PublicKey) -> Result<Option<i64>, Error> {
        let mut newest = None;
        for seq in self.indexed("SELECT seq FROM vanishes WHERE author = ?1", keys::author(author))? {
            let Some(json) = fetch(self.sql, seq)? else {
                continue;
            };
            let request = Canonical::new(&json);
            if request.pubkey() == author {
                newest = newest.max(Some(request.created_at()));
            }
        }
        Ok(newest)
    }

    fn deleted_at(
        &mut self,
        author: PublicKey,
        id: EventId,
        address: Option<&Address>,
    ) -> Result<Option<i64>, Error> {
        let mut newest = None;
        let targets = [
            Some(self.secret.deleted_id(id)),
            address.map(|address| self.secret.deleted_address(address)),
        ];
        for target in targets.into_iter().flatten() {
            for seq in self.indexed("SELECT seq FROM deletions WHERE target = ?1", target)? {
                let Some(json) = fetch(self.sql, seq)? else {
                    continue;
                };
                let request = parse_stored(json)?;
                let targets = Targets::of(&request);
                let names = targets.ids.contains(&id)
                    || address.is_some_and(|address| targets.addresses.contains(address));
                if request.pubkey() == author && names {
                    newest = newest.max(Some(request.created_at()));
                }
            }
        }
        Ok(newest)
    }

    fn version(&mut self, address: &Address) -> Result<Option<Position>, Error> {
        Ok(self
            .by_address(address)?
            .map(|(_, json)| position(&Canonical::new(&json))))
    }
}
