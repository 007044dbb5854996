//! The listening connection: it hears of wakes in other processes, and nothing runs on it but LISTEN (CW-08).

use std::{
    collections::{HashMap, HashSet},
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use esker_coord_api::{Channel, Name, WakeReceiver};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{interval, sleep, timeout},
};
use tokio_postgres::{AsyncMessage, Client, Notification, types::Type};

use crate::{Error, channel::mapped, error::Running, shared::Shared, url::Target};

/// How wakes in other processes arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeMode {
    /// By notifications.
    Listening,
    /// Not now: the listening connection was lost and is being made anew. Everybody is woken when it is.
    Reconnecting,
    /// Not at all: notifications do not come back on the listening connection, as with a transaction pooler. Waiters
    /// look again at [`Options::poll_interval`](crate::Options::poll_interval).
    Polling,
}

/// The shortest and the longest wait before the next try to connect.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How long a store that polls does so before it tries again to listen.
const POLLING: Duration = Duration::from_mins(1);

/// Wishes that wait for the listening connection; more wait for a place.
const WAITING: usize = 256;

const PROBE: &str = "SELECT pg_notify($1, $2)";

struct Wish {
    channel: Channel,
    done: oneshot::Sender<()>,
}

impl Wish {
    fn grant(self) {
        let _gone = self.done.send(());
    }
}

/// The face of the listening connection.
pub(crate) struct Listener {
    wishes: mpsc::Sender<Wish>,
    mode: watch::Receiver<WakeMode>,
    channels: Arc<Channels>,
}

impl Listener {
    /// Connects and finds out whether notifications arrive; from then on it keeps itself alive.
    pub(crate) async fn start(shared: &Arc<Shared>, target: Target) -> Result<Self, Error> {
        let (wishes, waiting) = mpsc::channel(WAITING);
        let (mode, seen) = watch::channel(WakeMode::Reconnecting);
        // No channel of the contract has a control character.
        let probe = mapped(shared.database.schema(), &format!("probe\n{}", shared.number));
        let channels = Arc::<Channels>::default();
        let task = Task {
            target,
            channels: channels.clone(),
            probe,
            mode,
            shared: shared.clone(),
        };
        let (ready, started) = oneshot::channel();
        shared.runtime.spawn(task.run(waiting, ready));
        started.await.unwrap_or(Err(Error::Closed))?;
        Ok(Self {
            wishes,
            mode: seen,
            channels,
        })
    }

    pub(crate) fn channels(&self) -> usize {
        self.channels.lock().len()
    }

    pub(crate) fn mode(&self) -> WakeMode {
        *self.mode.borrow()
    }

    /// Resolves when the channel is heard in every process, or, while nothing is heard at all, at once: then everybody
    /// will be woken.
    pub(crate) async fn listen(&self, shared: &Shared, channel: Channel) -> Result<WakeReceiver, Error> {
        let receiver = shared.hub.listen(channel.clone());
        let (done, heard) = oneshot::channel();
        self.wishes
            .send(Wish { channel, done })
            .await
            .map_err(|_| Error::Closed)?;
        // A wish that a lost connection took with it is fulfilled by the next one.
        let _lost = heard.await;
        Ok(receiver)
    }
}

/// Channels that are listened to, by their names in Postgres.
#[derive(Default)]
struct Channels(Mutex<HashMap<String, Channel>>);

impl Channels {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Channel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }
}

/// The task that keeps the listening connection.
struct Task {
    target: Target,
    channels: Arc<Channels>,
    probe: String,
    mode: watch::Sender<WakeMode>,
    shared: Arc<Shared>,
}

/// One connection that listens.
struct Session {
    client: Client,
    listened: HashSet<String>,
    /// Resolves when the connection has ended.
    ended: oneshot::Receiver<()>,
    probed: Arc<Notify>,
}

impl Task {
    async fn run(self, mut wishes: mpsc::Receiver<Wish>, ready: oneshot::Sender<Result<(), Error>>) {
        let stop = self.shared.stop.clone();
        let work = async {
            let mut session = match self.connect().await {
                Ok(session) => session,
                Err(error) => {
                    let _gone = ready.send(Err(error));
                    return;
                }
            };
            let _gone = ready.send(Ok(()));
            loop {
                match session.take() {
                    Some(session) => self.serve(session, &mut wishes).await,
                    None => self.poll(&mut wishes).await,
                }
                session = self.reconnect(&mut wishes).await;
                self.shared.stats.reconnects.add();
                self.shared.hub.wake_all();
            }
        };
        tokio::select! {
            // First, so that a store that is closed says nothing of its connections' end.
            biased;
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    /// A connection that hears notifications; `None` where none arrive.
    async fn connect(&self) -> Result<Option<Session>, Error> {
        let database = &self.shared.database;
        let connecting = async {
            let connected = self.target.config.connect(self.target.tls.maker()).await;
            connected.map_err(Error::connect)
        };
        // The driver bounds how long it waits for a network, not for a server's first words.
        let (client, mut connection) = database.in_time(connecting).await?;
        let probed = Arc::new(Notify::new());
        let (end, ended) = oneshot::channel::<()>();
        let heard = Heard {
            probe: self.probe.clone(),
            probed: probed.clone(),
            channels: self.channels.clone(),
            shared: self.shared.clone(),
        };
        self.shared.runtime.spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(notification) = message {
                    heard.hear(&notification);
                }
            }
            drop(end);
        });
        let mut session = Session {
            client,
            listened: HashSet::new(),
            ended,
            probed,
        };
        database.in_time(session.listen(vec![self.probe.clone()])).await?;
        let bound = self.shared.options.probe_timeout;
        // From another connection: what a pooler happens to deliver on the one that asks proves nothing.
        let parameters = [
            (&self.probe as _, Type::TEXT),
            (&self.shared.number as _, Type::TEXT),
        ];
        database.write(PROBE, &parameters).await?;
        if timeout(bound, session.probed.notified()).await.is_err() {
            self.mode.send_replace(WakeMode::Polling);
            tracing::warn!(
                ?bound,
                "no notification came back: waiters poll; give the listener a URL that leads to Postgres directly"
            );
            return Ok(None);
        }
        self.forget_unheard();
        database.in_time(session.listen(self.channels.names())).await?;
        self.mode.send_replace(WakeMode::Listening);
        Ok(Some(session))
    }

    /// Connects anew, however often that takes. Wishes are granted at once: everybody is woken in the end.
    async fn reconnect(&self, wishes: &mut mpsc::Receiver<Wish>) -> Option<Session> {
        self.mode.send_if_modified(|mode| {
            let lost = *mode == WakeMode::Listening;
            if lost {
                *mode = WakeMode::Reconnecting;
            }
            lost
        });
        let mut wait = Duration::ZERO;
        loop {
            let pause = sleep(wait);
            let attempt = async {
                pause.await;
                self.connect().await
            };
            tokio::pin!(attempt);
            let connected = loop {
                tokio::select! {
                    connected = &mut attempt => break connected,
                    Some(wish) = wishes.recv() => self.grant(wish),
                }
            };
            // What was wished for meanwhile is listened to before anybody is woken.
            let connected = match connected {
                Ok(Some(mut session)) => {
                    let listening = session.listen(self.channels.names());
                    let listening = self.shared.database.in_time(listening).await;
                    listening.map(|()| Some(session))
                }
                other => other,
            };
            match connected {
                Ok(session) => return session,
                Err(error) => tracing::warn!(%error, "the listening connection cannot be made"),
            }
            wait = (wait * 2).clamp(BACK_OFF.0, BACK_OFF.1);
        }
    }

    /// Fulfils wishes until the connection ends or dies quietly.
    async fn serve(&self, mut session: Session, wishes: &mut mpsc::Receiver<Wish>) {
        let heartbeat = self.shared.options.heartbeat;
        let mut beats = interval(heartbeat);
        beats.reset();
        loop {
            tokio::select! {
                _ = &mut session.ended => return tracing::warn!("the listening connection was lost"),
                Some(wish) = wishes.recv() => {
                    let mut granted = vec![wish];
                    while let Ok(wish) = wishes.try_recv() {
                        granted.push(wish);
                    }
                    let names = granted.iter().map(|wish| self.register(&wish.channel)).collect();
                    match timeout(heartbeat, session.listen(names)).await {
                        Ok(Ok(())) => granted.into_iter().for_each(Wish::grant),
                        Ok(Err(error)) => return tracing::warn!(%error, "the listening connection failed"),
                        Err(_) => return tracing::warn!("the listening connection does not answer"),
                    }
                }
                _ = beats.tick() => {
                    let beat = async {
                        session.unlisten(self.forget_unheard()).await?;
                        session.client.check_connection().await.map_err(|error| Error::of(error, Running::Undecided))
                    };
                    match timeout(heartbeat, beat).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return tracing::warn!(%error, "the listening connection failed"),
                        Err(_) => return tracing::warn!("the listening connection does not answer"),
                    }
                }
            }
        }
    }

    /// Wakes everybody again and again, for a while.
    async fn poll(&self, wishes: &mut mpsc::Receiver<Wish>) {
        let mut beats = interval(self.shared.options.poll_interval);
        let until = sleep(POLLING);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => return,
                _ = beats.tick() => {
                    self.shared.stats.polls.add();
                    self.shared.hub.wake_all();
                }
                Some(wish) = wishes.recv() => self.grant(wish),
            }
        }
    }

    /// Notes the channel, to be listened to, and gives its name in Postgres.
    fn register(&self, channel: &Channel) -> String {
        let name = mapped(self.shared.database.schema(), channel.as_str());
        self.channels.lock().insert(name.clone(), channel.clone());
        name
    }

    fn grant(&self, wish: Wish) {
        self.register(&wish.channel);
        wish.grant();
    }

    /// Drops the channels to which nobody listens any more, and gives their names in Postgres.
    fn forget_unheard(&self) -> Vec<String> {
        let mut channels = self.channels.lock();
        channels
            .extract_if(|_, channel| !self.shared.hub.is_heard(channel))
            .map(|(name, _)| name)
            .collect()
    }
}

impl Session {
    async fn listen(&mut self, names: Vec<String>) -> Result<(), Error> {
        let fresh = names
            .into_iter()
            .filter(|name| !self.listened.contains(name))
            .collect();
        self.listened.extend(self.each("LISTEN", fresh).await?);
        Ok(())
    }

    async fn unlisten(&mut self, names: Vec<String>) -> Result<(), Error> {
        for name in self.each("UNLISTEN", names).await? {
            self.listened.remove(&name);
        }
        Ok(())
    }

    /// The names are letters, digits and underscores.
    async fn each(&self, verb: &str, names: Vec<String>) -> Result<Vec<String>, Error> {
        if !names.is_empty() {
            let script = names
                .iter()
                .map(|name| format!("{verb} {name}"))
                .collect::<Vec<_>>()
                .join(";");
            self.client
                .batch_execute(&script)
                .await
                .map_err(|error| Error::of(error, Running::Undecided))?;
        }
        Ok(names)
    }
}

/// What becomes of notifications.
struct Heard {
    probe: String,
    probed: Arc<Notify>,
    channels: Arc<Channels>,
    shared: Arc<Shared>,
}

impl Heard {
    fn hear(&self, notification: &Notification) {
        if notification.channel() == self.probe {
            self.probed.notify_one();
            return;
        }
        let channel = self.channels.lock().get(notification.channel()).cloned();
        // Its own wakes were heard when they happened. What callers notify goes by names that they may use, and carries
        // what they please.
        if let Some(channel) = channel
            && (notification.payload() != self.shared.number || Name::new(channel.as_str()).is_ok())
        {
            self.shared.hub.wake(&channel);
        }
    }
}
