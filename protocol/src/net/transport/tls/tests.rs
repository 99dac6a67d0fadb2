use super::*;
use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use rustls::CipherSuite::{self, TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

/// More than all buffers on the way hold.
const LENGTH: usize = 1 << 20;

type Pipe = Compat<tokio::io::DuplexStream>;

fn pipe() -> (Pipe, Pipe) {
    let (near, far) = tokio::io::duplex(10_000);
    (near.compat(), far.compat())
}

fn host(aes_in_hardware: bool) -> (PeerId, Tls) {
    let key = Keypair::generate_ed25519();
    let tls = Tls::preferring(&key, &cipher_suites(aes_in_hardware)).unwrap();
    (key.public().to_peer_id(), tls)
}

/// The cipher that two hosts agree on, of which each has instructions for AES or not.
async fn agreed(client: bool, server: bool) -> CipherSuite {
    let ((client_id, client), (server_id, server)) = (host(client), host(server));
    let (near, far) = pipe();
    let (dialled, accepted) =
        tokio::join!(client.upgrade_outbound(near, "/tls/1.0.0"), server.upgrade_inbound(far, "/tls/1.0.0"));
    let ((to, dialled), (from, mut accepted)) = (dialled.unwrap(), accepted.unwrap());
    assert_eq!((to, from), (server_id, client_id));
    let suite = dialled.get_ref().1.negotiated_cipher_suite().unwrap().suite();

    let (mut reading, mut writing) = dialled.split();
    let sent: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    let send = async {
        writing.write_all(&sent).await.unwrap();
        writing.flush().await.unwrap();
    };
    let mut echo = vec![0; LENGTH];
    let answer = async {
        let mut got = vec![0; LENGTH];
        accepted.read_exact(&mut got).await.unwrap();
        accepted.write_all(&got).await.unwrap();
        accepted.flush().await.unwrap();
    };
    tokio::join!(send, answer, async { reading.read_exact(&mut echo).await.unwrap() });
    assert!(echo == sent);
    suite
}

#[tokio::test]
async fn aes_is_spoken_unless_one_side_has_no_instructions_for_it() {
    assert_eq!(agreed(true, true).await, TLS13_AES_128_GCM_SHA256);
    for (client, server) in [(false, true), (true, false), (false, false)] {
        assert_eq!(agreed(client, server).await, TLS13_CHACHA20_POLY1305_SHA256);
    }
}

#[tokio::test]
async fn libp2ps_own_tls_is_understood() {
    let key = Keypair::generate_ed25519();
    let stranger = libp2p::tls::Config::new(&key).unwrap();
    let (id, ours) = host(true);
    let (near, far) = pipe();
    let (dialled, accepted) = tokio::join!(
        stranger.clone().upgrade_outbound(near, "/tls/1.0.0"),
        ours.clone().upgrade_inbound(far, "/tls/1.0.0")
    );
    assert_eq!((dialled.unwrap().0, accepted.unwrap().0), (id, key.public().to_peer_id()));
    let (near, far) = pipe();
    let (dialled, accepted) =
        tokio::join!(ours.upgrade_outbound(near, "/tls/1.0.0"), stranger.upgrade_inbound(far, "/tls/1.0.0"));
    assert_eq!((dialled.unwrap().0, accepted.unwrap().0), (key.public().to_peer_id(), id));
}

/// A certificate that another host's key vouches for, or none: whoever shows it is refused by both sides.
#[tokio::test]
async fn who_shows_no_certificate_of_its_own_is_refused() {
    let ((_, ours), (_, honest)) = (host(true), host(true));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let (stolen, _) = certificate::generate(&Keypair::generate_ed25519()).unwrap();
    let (_, secret) = certificate::generate(&Keypair::generate_ed25519()).unwrap();
    let secret = provider.key_provider.load_private_key(secret).unwrap();
    let thief = Arc::new(SingleCertAndKey::from(CertifiedKey::new(vec![stolen], secret)));
    let builder = || {
        ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Libp2pCertificates))
    };
    let nameless = builder().with_no_client_auth();
    let stolen = builder().with_client_cert_resolver(thief.clone());
    for mut client in [nameless, stolen] {
        client.alpn_protocols = vec![ALPN.to_vec()];
        let client = Tls { connector: Arc::new(client).into(), ..honest.clone() };
        let (near, far) = pipe();
        let (_, accepted) = tokio::join!(
            client.upgrade_outbound(near, "/tls/1.0.0"),
            ours.clone().upgrade_inbound(far, "/tls/1.0.0")
        );
        assert!(accepted.is_err());
    }
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_client_cert_verifier(Arc::new(Libp2pCertificates))
        .with_cert_resolver(thief);
    let server = Tls { acceptor: Arc::new(server).into(), ..honest };
    let (near, far) = pipe();
    let (dialled, _) =
        tokio::join!(ours.upgrade_outbound(near, "/tls/1.0.0"), server.upgrade_inbound(far, "/tls/1.0.0"));
    assert!(dialled.is_err());
}

#[test]
fn two_certificates_are_one_too_many() {
    let (certificate, _) = certificate::generate(&Keypair::generate_ed25519()).unwrap();
    assert!(check(&certificate, &[]).is_ok());
    assert!(check(&certificate, std::slice::from_ref(&certificate)).is_err());
    assert!(check(&CertificateDer::from(vec![7; 100]), &[]).is_err());
}
