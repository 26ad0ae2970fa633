//! How the dialling end finds an accepting one on a server.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::contender::Contender;
use super::lines::{Answer, Challenge, Hello, Purpose, Welcome, hear, hear_exactly, say};
use super::token::{Prover, Token, nonce};
use crate::carrier::Plug;
use crate::wire::{Done, Order};

/// How long a server may take until it listens: its pod runs, and its program begins.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_TRIES: Duration = Duration::from_millis(250);
/// How long a connection may take until both sides have shown that they are of the run.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// The longest that an order takes, by far.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Where accepting ends are.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) token: Token,
}

/// An accepting end on a server.
#[derive(Debug)]
pub(crate) struct Remote {
    orders: TcpStream,
    answers: BufReader<TcpStream>,
    /// What went wrong when an order was sent: told when its answer is asked for.
    broken: Option<anyhow::Error>,
}

impl Server {
    /// An accepting end that takes messages of `bytes`, and the connection to it.
    pub(crate) fn meet(&self, contender: Contender, bytes: usize) -> Result<(Remote, Plug)> {
        let orders = self.dial(&Purpose::Orders { contender: Box::new(contender), bytes })?;
        orders.set_read_timeout(Some(SILENCE_MAX))?;
        let mut answers = BufReader::new(orders.try_clone()?);
        let data = match hear(&mut answers)? {
            Some(Answer::Waiting { port: Some(port), .. }) => {
                let remote = SocketAddr::new(self.address.ip(), port);
                Plug::Udp { socket: UdpSocket::bind((orders.local_addr()?.ip(), 0))?, remote }
            }
            Some(Answer::Waiting { number, port: None }) => {
                let data = self.dial(&Purpose::Data { number })?;
                data.set_nonblocking(true)?;
                Plug::Tcp(data)
            }
            other => bail!("the server says {other:?} instead of where to connect"),
        };
        Ok((Remote { orders, answers, broken: None }, data))
    }

    /// The run is over.
    pub(crate) fn stop(&self) -> Result<()> {
        let stream = self.dial(&Purpose::Stop)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        // Its answer is that it has heard.
        hear::<Answer>(&mut BufReader::new(stream)).map(|_| ())
    }

    /// A connection whose other side has shown that it is of the run.
    fn dial(&self, purpose: &Purpose) -> Result<TcpStream> {
        let purpose = serde_json::to_string(purpose)?;
        let (mut stream, theirs) = self.challenged()?;
        let ours = nonce()?;
        let nonces = [theirs.as_str(), ours.as_str()];
        let proof = self.token.proof(Prover::Client, nonces, &purpose);
        say(&mut stream, &Hello { nonce: ours.clone(), purpose: purpose.clone(), proof })?;
        let welcome = hear_exactly(&mut stream, Instant::now() + GREETING_MAX);
        let Welcome { proof } = welcome.context("the server does not take this for one of its run")?;
        let proved = self.token.proves(&proof, Prover::Server, nonces, &purpose);
        ensure!(proved, "what answers at {} is not of this run", self.address);
        Ok(stream)
    }

    /// Connects, again and again until a server is there and has room: the connection, and the server's nonce.
    fn challenged(&self) -> Result<(TcpStream, String)> {
        let until = Instant::now() + PATIENCE;
        loop {
            let error = match self.connect() {
                Ok(challenged) => return Ok(challenged),
                Err(error) => error,
            };
            if Instant::now() >= until {
                return Err(error.context(format!("connecting to the server at {}", self.address)));
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
    }

    fn connect(&self) -> Result<(TcpStream, String)> {
        let mut stream = TcpStream::connect_timeout(&self.address, GREETING_MAX)?;
        stream.set_nodelay(true)?;
        let Challenge { nonce } = hear_exactly(&mut stream, Instant::now() + GREETING_MAX)?;
        Ok((stream, nonce))
    }
}

impl Remote {
    pub(crate) fn order(&mut self, order: Order) {
        self.broken = say(&mut self.orders, &order).err();
    }

    /// The answer to the last order, or to the connection. It is timed when it is here: half a round trip late.
    pub(crate) fn done(&mut self) -> Result<Done> {
        if let Some(broken) = self.broken.take() {
            return Err(broken.context("ordering an end on the server"));
        }
        let began = Instant::now();
        match hear(&mut self.answers).context("hearing from the server")? {
            Some(Answer::Done { wrong }) => {
                Ok(Done { began, ended: Instant::now(), latencies: Vec::new(), wrong })
            }
            Some(Answer::Failed { why }) => Err(anyhow!("on the server: {why}")),
            other => bail!("the server says {other:?} instead of how it went"),
        }
    }
}
