//! The server: listens, lets connections in up to the limits, and ends in order.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use esker_events_api::{Clock, EventStore};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use crate::{
    Counters, Error, Info, Limits, http,
    relay::{Phase, Relay},
};

/// Connections that the kernel may hold until they are accepted.
const BACKLOG: i32 = 1024;

/// The pause after a failed accept: without free descriptors it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a relay is told when it starts.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens; port 0 takes a free one. Other processes may listen there too (`SO_REUSEPORT`).
    pub listen: SocketAddr,
    /// Its bounds.
    pub limits: Limits,
    /// What the operator says about it.
    pub info: Info,
    /// Where `created_at` is compared with; the store's clock, ordinarily.
    pub clock: Clock,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7447)),
            limits: Limits::default(),
            info: Info::default(),
            clock: Clock::system(),
        }
    }
}

/// A relay that listens; it serves while it [runs](Self::run).
pub struct Server {
    relay: Arc<Relay>,
    listener: TcpListener,
    address: SocketAddr,
}

/// Listens and serves until `shutdown` completes: [`Server::bind`] and [`Server::run`] in one.
pub async fn serve(
    config: Config,
    store: Arc<dyn EventStore>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    Server::bind(config, store)?.run(shutdown).await;
    Ok(())
}

impl Server {
    /// Listens and starts what the relay needs; must be called within a tokio runtime.
    pub fn bind(config: Config, store: Arc<dyn EventStore>) -> Result<Self, Error> {
        if let Some((name, least)) = config.limits.too_small() {
            return Err(Error::Limit { name, least });
        }
        let failed = |source| Error::Listen {
            address: config.listen,
            source,
        };
        let listener = listen(config.listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let relay = Relay::start(config.limits, config.info, config.clock, store)?;
        Ok(Self {
            relay,
            listener,
            address,
        })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What it counts.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.relay.counters)
    }

    /// Serves until `shutdown` completes, then drains: no new connections; what was taken is answered, what
    /// waits is sent, and connections are closed with code 1001, all within the drain timeout.
    ///
    /// The store stays open: it is the caller's to close.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self { relay, listener, .. } = self;
        let total = relay.limits.connections;
        let doors = Arc::new(Doors {
            free: Arc::new(Semaphore::new(total as usize)),
            per_ip: relay.limits.connections_per_ip,
            of_ip: Mutex::default(),
            counters: Arc::clone(&relay.counters),
        });
        tokio::select! {
            () = accept(&relay, &listener, &doors) => {}
            () = sweep(&relay) => {}
            () = shutdown => {}
        }
        drop(listener);
        relay.phase.send_replace(Phase::Draining);
        // Every connection that has ended has given its permit back.
        if tokio::time::timeout(relay.limits.drain_timeout(), doors.free.acquire_many(total))
            .await
            .is_err()
        {
            tracing::warn!("some connections did not end in time and are cut");
        }
        relay.phase.send_replace(Phase::Ended);
        relay.ingest.close();
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts for ever.
async fn accept(relay: &Arc<Relay>, listener: &TcpListener, doors: &Arc<Doors>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => match doors.enter(peer.ip()) {
                Ok(pass) => {
                    // An error is a peer that is gone already, which the first read will tell.
                    let _ = stream.set_nodelay(true);
                    tokio::spawn(http::serve(Arc::clone(relay), stream, pass));
                }
                Err(refusal) => refusal.tell(&stream),
            },
            Err(error) => {
                relay.counters.accept_errors.increment();
                // A connection that its peer gave up while it waited says nothing about the next.
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Removes what has expired, now and then, for ever (NIP-40).
async fn sweep(relay: &Relay) {
    let period = Duration::from_secs(relay.limits.expiry_sweep_secs);
    let mut timer = tokio::time::interval(period);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        match relay.store.delete_expired().await {
            Ok(removed) => relay.counters.expired.add(removed),
            Err(error) => tracing::warn!(%error, "expired events were not removed"),
        }
    }
}

/// Who may come in: a number in all, and of each address.
struct Doors {
    free: Arc<Semaphore>,
    per_ip: u32,
    of_ip: Mutex<HashMap<IpAddr, u32>>,
    counters: Arc<Counters>,
}

/// A connection's place among those that are let in; it is given back on drop.
pub(crate) struct Pass {
    doors: Arc<Doors>,
    ip: IpAddr,
    _place: OwnedSemaphorePermit,
}

/// Why a connection is turned away.
#[derive(Clone, Copy)]
enum Refusal {
    Total,
    Address,
}

impl Doors {
    fn enter(self: &Arc<Self>, ip: IpAddr) -> Result<Pass, Refusal> {
        let Ok(place) = Arc::clone(&self.free).try_acquire_owned() else {
            self.counters.connections_over_total.increment();
            return Err(Refusal::Total);
        };
        {
            let mut of_ip = self.lock();
            let count = of_ip.entry(ip).or_default();
            if *count >= self.per_ip {
                if *count == 0 {
                    of_ip.remove(&ip);
                }
                self.counters.connections_over_ip.increment();
                return Err(Refusal::Address);
            }
            *count += 1;
        }
        self.counters.connections.increment();
        self.counters.connections_open.increment();
        Ok(Pass {
            doors: Arc::clone(self),
            ip,
            _place: place,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.of_ip.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut of_ip = self.doors.lock();
        if let Some(count) = of_ip.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                of_ip.remove(&self.ip);
            }
        }
        self.doors.counters.connections_open.decrement();
    }
}

impl Refusal {
    /// Says why, if the socket takes it at once, which a fresh one does.
    fn tell(self, stream: &TcpStream) {
        let status = match self {
            Self::Total => "503 Service Unavailable",
            Self::Address => "429 Too Many Requests",
        };
        let response = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.try_write(response.as_bytes());
    }
}
