//! The cluster's certificate authority, the API server's certificate, and the tokens of its clients.
//!
//! All of it is made anew for each cluster and lies in `pki/`, which only root may enter. Bearer tokens stand for
//! client certificates: the API server reads them once, from one file.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use aws_lc_rs::rand;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::place::NODES;

/// Where the API server listens inside the cluster's network, from its own processes and from the nodes.
const LOCAL: &str = "https://127.0.0.1:6443";
const BRIDGE: &str = "https://10.90.0.1:6443";

const SERVER_NAMES: [&str; 8] = [
    "127.0.0.1",
    "10.90.0.1",
    "10.96.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

struct Client {
    file: String,
    user: String,
    group: &'static str,
    server: &'static str,
}

/// Writes all keys, certificates, tokens and kubeconfig files of the components.
pub(super) fn write(folder: &Path) -> Result<()> {
    let authority_key = KeyPair::generate()?;
    let authority = authority()?;
    let authority_certificate = authority.self_signed(&authority_key)?.pem();
    let server_key = KeyPair::generate()?;
    let issuer = Issuer::from_params(&authority, &authority_key);
    let server_certificate = server()?.signed_by(&server_key, &issuer)?.pem();
    let account_key = KeyPair::generate()?;

    let save = |name: &str, text: &str| {
        fs::write(folder.join(name), text).with_context(|| format!("write {}", folder.join(name).display()))
    };
    save("ca.crt", &authority_certificate)?;
    save("ca.key", &authority_key.serialize_pem())?;
    save("apiserver.crt", &server_certificate)?;
    save("apiserver.key", &server_key.serialize_pem())?;
    save("sa.key", &account_key.serialize_pem())?;
    save("sa.pub", &account_key.public_key_pem())?;

    let mut tokens = String::new();
    for Client { file, user, group, server } in clients() {
        let token = token()?;
        tokens += &format!("{token},{user},{user},\"{group}\"\n");
        save(&format!("{file}.token"), &token)?;
        save(&format!("{file}.kubeconfig"), &kubeconfig(server, &authority_certificate, &token))?;
    }
    save("tokens.csv", &tokens)
}

/// A kubeconfig for the administrator that goes through `server`.
pub(super) fn admin_kubeconfig(folder: &Path, server: &str) -> Result<String> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).with_context(|| format!("read {name}"));
    Ok(kubeconfig(server, &read("ca.crt")?, &read("admin.token")?))
}

fn clients() -> Vec<Client> {
    let client = |file: &str, user: &str, group, server| Client {
        file: file.into(),
        user: user.into(),
        group,
        server,
    };
    let mut clients = vec![
        client("admin", "admin", "system:masters", LOCAL),
        client("controllers", "system:kube-controller-manager", "", LOCAL),
        client("scheduler", "system:kube-scheduler", "", LOCAL),
        client("coredns", "system:coredns", "", LOCAL),
        client("proxy", "system:kube-proxy", "", BRIDGE),
    ];
    clients.extend(NODES.map(|n| client(n.name, &format!("system:node:{}", n.name), "system:nodes", BRIDGE)));
    clients
}

fn authority() -> Result<CertificateParams> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "sealane local cluster");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(parameters)
}

fn server() -> Result<CertificateParams> {
    let mut parameters = CertificateParams::new(SERVER_NAMES.map(str::to_owned).to_vec())?;
    parameters.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters.use_authority_key_identifier_extension = true;
    Ok(parameters)
}

fn token() -> Result<String> {
    let mut bytes = [0_u8; 16];
    rand::fill(&mut bytes).ok().context("no random numbers from the system")?;
    Ok(hex::encode(bytes))
}

fn kubeconfig(server: &str, authority: &str, token: &str) -> String {
    let authority = BASE64.encode(authority);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: sealane\n  cluster:\n    server: {server}\n    certificate-authority-data: {authority}\n\
         users:\n\
         - name: admin\n  user:\n    token: {token}\n\
         contexts:\n\
         - name: sealane\n  context:\n    cluster: sealane\n    user: admin\n\
         current-context: sealane\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_a_token_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let tokens = fs::read_to_string(folder.path().join("tokens.csv")).unwrap();
        let mut distinct: Vec<_> = tokens.lines().map(|line| line.split(',').next().unwrap()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 5 + NODES.len());
        assert!(tokens.contains(",system:node:node1,system:node:node1,\"system:nodes\"\n"));

        let text = admin_kubeconfig(folder.path(), "https://127.0.0.1:40000").unwrap();
        let config: serde_json::Value = serde_norway::from_str(&text).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:40000");
        let authority = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap();
        assert_eq!(BASE64.decode(authority).unwrap(), fs::read(folder.path().join("ca.crt")).unwrap());
        let token = config["users"][0]["user"]["token"].as_str().unwrap();
        assert!(tokens.contains(&format!("{token},admin,")));
    }
}
