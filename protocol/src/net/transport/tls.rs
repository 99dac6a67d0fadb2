//! The encryption of TCP connections and circuits: TLS 1.3 as [libp2p specifies
//! it](https://github.com/libp2p/specs/blob/master/tls/tls.md).
//!
//! Certificates are libp2p's, and so is what makes one valid. Two things are not. libp2p wishes for
//! ChaCha20 first; here AES comes first where the processor has instructions for it, as it takes a
//! fraction of the time. And what is sent and received goes through buffers, as the multiplexer
//! writes its headers alone and TLS reads 4 KiB at a time.

use futures::future::BoxFuture;
use futures::io::{BufReader, BufWriter};
use futures::{AsyncRead, AsyncWrite};
use futures_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use libp2p::PeerId;
use libp2p::core::UpgradeInfo;
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade};
use libp2p::identity::Keypair;
use libp2p::tls::certificate;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, ring};
use rustls::pki_types::{CertificateDer, IpAddr, Ipv4Addr, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    SupportedCipherSuite,
};
use std::io;
use std::iter;
use std::sync::Arc;

use crate::net::error::NetError;
use crate::snapshot::blocks::BLOCK_BYTES;

/// Encrypted bytes are read from the socket in pieces of up to this length.
const READ_BYTES: usize = 64 << 10;
/// And written so: a frame of the multiplexer with its header.
const WRITE_BYTES: usize = 132 << 10;
/// Bytes of one record: a fifth of a block and the words around it. Pieces of 16 KiB all begin
/// where a page does, and so do their copies, but for a header of 5 bytes: many processors copy
/// at a twentieth of their speed to an address that lies, within its page, 1 to 31 bytes after
/// that of the source.
pub(in crate::net) const RECORD_BYTES: usize = BLOCK_BYTES / 5 + 64;
/// Bytes around one record: its header, its tag, and its kind.
pub(in crate::net) const AROUND_RECORD: usize = RECORD_HEADER + 16 + 1;
const RECORD_HEADER: usize = 5;
/// What the other side must say that it speaks inside of the encryption.
const ALPN: &[u8] = b"libp2p";
/// How certificates may be signed. libp2p's own are signed by ECDSA.
const SIGNATURES: [SignatureScheme; 2] = [SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519];

/// A connection whose other end is known.
pub(in crate::net) type Encrypted<C> = TlsStream<BufReader<BufWriter<C>>>;

/// Negotiates TLS with a certificate that names the host's key.
#[derive(Clone)]
pub(in crate::net) struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl Tls {
    /// With a fresh certificate.
    ///
    /// # Errors
    ///
    /// When no certificate can be made, for want of random numbers.
    pub(in crate::net) fn new(key: &Keypair) -> Result<Self, NetError> {
        Self::preferring(key, &cipher_suites(aes_in_hardware()))
    }

    fn preferring(key: &Keypair, suites: &[SupportedCipherSuite]) -> Result<Self, NetError> {
        let cannot = |cause: String| NetError::Build { what: "TLS", cause };
        let provider =
            Arc::new(CryptoProvider { cipher_suites: suites.to_vec(), ..aws_lc_rs::default_provider() });
        let (certificate, secret) = certificate::generate(key).map_err(|error| cannot(error.to_string()))?;
        let secret =
            provider.key_provider.load_private_key(secret).map_err(|error| cannot(error.to_string()))?;
        let identity = Arc::new(SingleCertAndKey::from(CertifiedKey::new(vec![certificate], secret)));
        let versions = &[&TLS13];
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| cannot(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Libp2pCertificates))
            .with_client_cert_resolver(identity.clone());
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| cannot(error.to_string()))?
            .with_client_cert_verifier(Arc::new(Libp2pCertificates))
            .with_cert_resolver(identity);
        // rustls counts a record's header.
        (client.max_fragment_size, server.max_fragment_size) =
            (Some(RECORD_BYTES + RECORD_HEADER), Some(RECORD_BYTES + RECORD_HEADER));
        client.alpn_protocols = vec![ALPN.to_vec()];
        server.alpn_protocols = vec![ALPN.to_vec()];
        // Sessions are stored by the name of the server, and all of ours have the same.
        client.resumption = Resumption::disabled();
        server.send_tls13_tickets = 0;
        // Who has no instructions for AES decides, so that the slower side has the cipher that is fast there.
        server.ignore_client_order = suites.first().map(SupportedCipherSuite::suite)
            == Some(rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
        Ok(Self { connector: Arc::new(client).into(), acceptor: Arc::new(server).into() })
    }
}

/// The ciphers, the preferred one first. They are ring's, which knows the wide AES instructions of
/// AVX2 and is twice as fast with them.
fn cipher_suites(aes_in_hardware: bool) -> [SupportedCipherSuite; 2] {
    let (aes, chacha) =
        (ring::cipher_suite::TLS13_AES_128_GCM_SHA256, ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256);
    if aes_in_hardware { [aes, chacha] } else { [chacha, aes] }
}

fn aes_in_hardware() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

impl UpgradeInfo for Tls {
    type Info = &'static str;
    type InfoIter = iter::Once<Self::Info>;

    fn protocol_info(&self) -> Self::InfoIter {
        iter::once("/tls/1.0.0")
    }
}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> InboundConnectionUpgrade<C> for Tls {
    type Output = (PeerId, Encrypted<C>);
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Output>>;

    fn upgrade_inbound(self, socket: C, _: Self::Info) -> Self::Future {
        Box::pin(async move {
            known(
                self.acceptor
                    .accept_with(buffered(socket), |tls| tls.set_buffer_limit(Some(WRITE_BYTES)))
                    .await?
                    .into(),
            )
        })
    }
}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> OutboundConnectionUpgrade<C> for Tls {
    type Output = (PeerId, Encrypted<C>);
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Output>>;

    fn upgrade_outbound(self, socket: C, _: Self::Info) -> Self::Future {
        // An address, so that no name is sent; it is of no other use.
        let nobody = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::from([0; 4])));
        Box::pin(async move {
            known(
                self.connector
                    .connect_with(nobody, buffered(socket), |tls| tls.set_buffer_limit(Some(WRITE_BYTES)))
                    .await?
                    .into(),
            )
        })
    }
}

fn buffered<C: AsyncRead + AsyncWrite>(socket: C) -> BufReader<BufWriter<C>> {
    BufReader::with_capacity(READ_BYTES, BufWriter::with_capacity(WRITE_BYTES, socket))
}

/// Reads from the certificate who it is. Whether that is who was called is seen to by the swarm.
fn known<C>(stream: Encrypted<C>) -> io::Result<(PeerId, Encrypted<C>)> {
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.ok_or_else(|| io::Error::other("the peer showed no certificate"))?;
    let peer = certificate::parse(certificate).map_err(io::Error::other)?.peer_id();
    Ok((peer, stream))
}

/// Accepts whoever shows one certificate that is valid by the rules of libp2p, and signs with its key.
#[derive(Debug)]
struct Libp2pCertificates;

/// `certificate::parse` checks dates, the signature over itself, and that the peer's own key vouches for it.
fn check(certificate: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
    if !others.is_empty() {
        return Err(rustls::Error::General("libp2p allows exactly one certificate".into()));
    }
    certificate::parse(certificate)?;
    Ok(())
}

fn check_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    certificate::parse(certificate)?.verify_signature(signed.scheme, message, signed.signature())?;
    Ok(HandshakeSignatureValid::assertion())
}

fn only_tls_13() -> rustls::Error {
    rustls::Error::General("only TLS 1.3 is spoken here".into())
}

impl ServerCertVerifier for Libp2pCertificates {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        check(certificate, others).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(only_tls_13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SIGNATURES.to_vec()
    }
}

impl ClientCertVerifier for Libp2pCertificates {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        check(certificate, others).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(only_tls_13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SIGNATURES.to_vec()
    }
}

#[cfg(test)]
mod tests;
