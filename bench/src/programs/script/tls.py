"""The ends of a TLS 1.3 connection of Python's `ssl`, each with the other's certificate."""

import pathlib
import ssl

import tcp


def context(folder, protocol):
    made = ssl.SSLContext(protocol)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    certificate = pathlib.Path(folder, "cert.pem")
    made.load_cert_chain(certificate, pathlib.Path(folder, "key.pem"))
    made.load_verify_locations(certificate)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def put(host, port, folder):
    def around(stream):
        sealed = context(folder, ssl.PROTOCOL_TLS_CLIENT).wrap_socket(stream)
        return sealed, f"{ssl.OPENSSL_VERSION}, {sealed.cipher()[0]}"

    yield from tcp.put(host, port, around)


def take(host, folder):
    accepting = context(folder, ssl.PROTOCOL_TLS_SERVER)
    yield from tcp.take(host, lambda stream: accepting.wrap_socket(stream, server_side=True))
