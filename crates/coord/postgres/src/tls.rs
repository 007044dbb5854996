//! How TLS is spoken with the server: `sslmode` as libpq means it.

use crate::Error;

/// What a connection asks of the server (`sslmode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verify {
    /// No TLS.
    Disable,
    /// TLS where the server has it, with any certificate: it keeps out who only listens.
    Prefer,
    /// TLS or nothing, with any certificate; the chain is checked where `sslrootcert` is given.
    Require,
    /// The certificate must come from a known authority.
    Chain,
    /// And be the host's.
    Full,
}

#[cfg(feature = "tls")]
pub(crate) use with_rustls::Connector;
#[cfg(not(feature = "tls"))]
pub(crate) use without::Connector;

#[cfg(not(feature = "tls"))]
mod without {
    use tokio_postgres::NoTls;

    use super::{Error, Verify};

    /// No TLS in this build.
    #[derive(Debug, Clone)]
    pub(crate) struct Connector;

    impl Connector {
        pub(crate) fn new(mode: Verify, roots: Option<&str>) -> Result<Self, Error> {
            match mode {
                Verify::Disable | Verify::Prefer if roots.is_none() => Ok(Self),
                _ => Err(Error::NoTls),
            }
        }

        #[expect(clippy::unused_self, reason = "the face that the build with TLS has")]
        pub(crate) fn maker(&self) -> NoTls {
            NoTls
        }
    }
}

#[cfg(feature = "tls")]
mod with_rustls {
    use std::{fs, sync::Arc};

    use rustls::{
        CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
        SignatureScheme,
        client::{
            WebPkiServerVerifier,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        },
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    };
    use tokio_postgres_rustls::MakeRustlsConnect;

    use super::{Error, Verify};

    /// TLS by rustls.
    #[derive(Clone)]
    pub(crate) struct Connector(Arc<ClientConfig>);

    impl std::fmt::Debug for Connector {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Connector")
        }
    }

    impl Connector {
        pub(crate) fn new(mode: Verify, roots: Option<&str>) -> Result<Self, Error> {
            let provider = Arc::new(ring::default_provider());
            let builder = ClientConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()
                .expect("ring speaks TLS 1.2 and 1.3");
            let chain = match (mode, roots) {
                (Verify::Disable | Verify::Prefer | Verify::Require, None) => None,
                (_, path) => Some(chain(path, &provider)?),
            };
            let name = mode == Verify::Full;
            let verifier = Arc::new(Verifier {
                chain,
                name,
                provider,
            });
            let config = builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
                .with_no_client_auth();
            Ok(Self(Arc::new(config)))
        }

        pub(crate) fn maker(&self) -> MakeRustlsConnect {
            MakeRustlsConnect::new(ClientConfig::clone(&self.0))
        }
    }

    /// The authorities of `path`, or those that browsers trust.
    fn chain(path: Option<&str>, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Error> {
        let mut roots = RootCertStore::empty();
        let label = path.unwrap_or("the built-in authorities");
        let unusable = |reason: String| Error::Certificates {
            path: label.to_owned(),
            reason,
        };
        match path {
            None | Some("system") => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(path) => {
                let pem = fs::read(path).map_err(|error| unusable(error.to_string()))?;
                for certificate in CertificateDer::pem_slice_iter(&pem) {
                    let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                    roots
                        .add(certificate)
                        .map_err(|error| unusable(error.to_string()))?;
                }
            }
        }
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| unusable(error.to_string()))
    }

    /// Checks as much of the certificate as `sslmode` asks for; the handshake's signature always.
    #[derive(Debug)]
    struct Verifier {
        chain: Option<Arc<WebPkiServerVerifier>>,
        name: bool,
        provider: Arc<CryptoProvider>,
    }

    impl ServerCertVerifier for Verifier {
        fn verify_server_cert(
            &self,
            end_entity: &CertificateDer<'_>,
            intermediates: &[CertificateDer<'_>],
            server_name: &ServerName<'_>,
            ocsp_response: &[u8],
            now: UnixTime,
        ) -> Result<ServerCertVerified, TlsError> {
            let Some(chain) = &self.chain else {
                return Ok(ServerCertVerified::assertion());
            };
            match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                Err(TlsError::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )) if !self.name => Ok(ServerCertVerified::assertion()),
                other => other,
            }
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, TlsError> {
            verify_tls12_signature(
                message,
                cert,
                dss,
                &self.provider.signature_verification_algorithms,
            )
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, TlsError> {
            verify_tls13_signature(
                message,
                cert,
                dss,
                &self.provider.signature_verification_algorithms,
            )
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider
                .signature_verification_algorithms
                .supported_schemes()
        }
    }
}
