//! SCRAM (RFC 5802): the password is never sent, and the broker proves that it knows it too.

use super::{Login, SaslError};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use std::fmt::{self, Debug};
use std::num::NonZeroU32;

/// "No channel binding", in Base64.
const NO_BINDING: &str = "biws";
/// Fewer iterations than brokers allow would make the password easy to guess.
const MIN_ITERATIONS: u32 = 4096;
/// More iterations would keep this client busy for minutes.
const MAX_ITERATIONS: u32 = 10_000_000;

/// The hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

/// The next message.
#[derive(Clone, PartialEq, Eq)]
enum Step {
    /// From the broker: nonce, salt and number of iterations.
    Challenge,
    /// From the broker: its signature, which must equal this.
    Signature(Vec<u8>),
    Done,
}

/// One authentication.
pub(in crate::kafka::native::net) struct ScramClient {
    hash: Hash,
    login: Login,
    nonce: String,
    step: Step,
}

impl Debug for ScramClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramClient")
            .field("hash", &self.hash)
            .field("login", &self.login)
            .finish_non_exhaustive()
    }
}

fn sign(hash: Hash, key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hash.hmac(), key), text)
        .as_ref()
        .to_vec()
}

/// The value of an attribute in a message, such as `r=...`.
fn attribute(message: &str, name: char) -> Option<&str> {
    (message.split(',')).find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn malformed(what: &str) -> SaslError {
    SaslError::Later(format!("SCRAM: the broker's message has no {what}"))
}

impl ScramClient {
    pub(super) fn new(hash: Hash, login: Login) -> Result<Self, SaslError> {
        let mut bytes = [0; 18];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| SaslError::Later("SCRAM: this machine gives no random bytes".into()))?;
        Ok(Self::with_nonce(hash, login, BASE64_STANDARD.encode(bytes)))
    }

    pub(super) fn with_nonce(hash: Hash, login: Login, nonce: String) -> Self {
        Self {
            hash,
            login,
            nonce,
            step: Step::Challenge,
        }
    }

    /// The first message without its header; it is part of the signed text.
    fn bare(&self) -> String {
        let name = self.login.username.replace('=', "=3D").replace(',', "=2C");
        format!("n={name},r={}", self.nonce)
    }

    pub(super) fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.bare()).into_bytes()
    }

    pub(super) fn next(&mut self, said: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        let said = std::str::from_utf8(said).map_err(|_| malformed("text"))?;
        if let Some(error) = attribute(said, 'e') {
            return Err(SaslError::Refused(format!("SCRAM: {error}")));
        }
        match std::mem::replace(&mut self.step, Step::Done) {
            Step::Challenge => self.prove(said).map(Some),
            Step::Signature(expected) => {
                let signature = attribute(said, 'v').ok_or_else(|| malformed("signature"))?;
                let signature = BASE64_STANDARD
                    .decode(signature)
                    .map_err(|_| malformed("signature"))?;
                if signature != expected {
                    return Err(SaslError::Refused(
                        "SCRAM: what answers doesn't know the password of this user".into(),
                    ));
                }
                Ok(None)
            }
            Step::Done => Ok(None),
        }
    }

    fn prove(&mut self, challenge: &str) -> Result<Vec<u8>, SaslError> {
        let nonce = attribute(challenge, 'r').ok_or_else(|| malformed("nonce"))?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(malformed("nonce of its own behind ours"));
        }
        let salt = attribute(challenge, 's').and_then(|salt| BASE64_STANDARD.decode(salt).ok());
        let salt = salt.ok_or_else(|| malformed("salt"))?;
        let rounds = attribute(challenge, 'i').and_then(|rounds| rounds.parse::<u32>().ok());
        let rounds = (rounds.filter(|r| (MIN_ITERATIONS..=MAX_ITERATIONS).contains(r)))
            .and_then(NonZeroU32::new)
            .ok_or_else(|| malformed("number of iterations that is allowed (4096 or more)"))?;
        let hash = self.hash;
        let mut salted = vec![0; hash.digest().output_len()];
        let password = self.login.password.as_bytes();
        pbkdf2::derive(hash.pbkdf2(), rounds, &salt, password, &mut salted);

        let unproved = format!("c={NO_BINDING},r={nonce}");
        let signed = format!("{},{challenge},{unproved}", self.bare());
        let client_key = sign(hash, &salted, b"Client Key");
        let stored_key = digest::digest(hash.digest(), &client_key);
        let signature = sign(hash, stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> = (client_key.iter().zip(&signature))
            .map(|(key, signature)| key ^ signature)
            .collect();
        let server_key = sign(hash, &salted, b"Server Key");
        self.step = Step::Signature(sign(hash, &server_key, signed.as_bytes()));
        Ok(format!("{unproved},p={}", BASE64_STANDARD.encode(proof)).into_bytes())
    }
}
