import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'

import { temporaryFolder } from '../temporary-folder.ts'

/** Files of an own authority, and of a certificate for 127.0.0.1 that it has signed. */
export interface TlsCertificates {
  readonly ca: string
  readonly cert: string
  readonly key: string
}

/** Makes them with openssl. */
export async function tlsCertificates(): Promise<TlsCertificates> {
  const folder = await temporaryFolder()
  const file = (name: string): string => path.join(folder, name)
  const [ca, caKey] = [file('ca.pem'), file('ca-key.pem')]
  const [cert, key] = [file('cert.pem'), file('key.pem')]
  const newKey = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
  ]
  const own = ['-days', '2', '-subj', '/CN=an own authority', '-keyout', caKey, '-out', ca]
  execFileSync('openssl', [...newKey, ...own], { stdio: 'pipe' })
  const signed = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2']
  const by = ['-CA', ca, '-CAkey', caKey, '-keyout', key, '-out', cert]
  execFileSync('openssl', [...newKey, ...signed, ...by], { stdio: 'pipe' })
  return { ca, cert, key }
}

/** Their content. */
export function readCertificates({
  ca,
  cert,
  key,
}: TlsCertificates): Record<'ca' | 'cert' | 'key', string> {
  const read = (name: string): string => readFileSync(name, 'utf8')
  return { ca: read(ca), cert: read(cert), key: read(key) }
}
