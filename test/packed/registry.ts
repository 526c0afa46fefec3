import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { promisify } from 'node:util'

import type { PackedPackage } from './workspace.ts'

/** A package registry on this machine that has our packages, as if they were published. */
export interface Registry extends AsyncDisposable {
  readonly url: string
}

/** Serves tarballs to npm and pnpm. The caller closes it. */
export async function startRegistry(
  packages: readonly PackedPackage[],
  wantedPort = 0,
): Promise<Registry> {
  const manifests = new Map(await Promise.all(packages.map(async (one) => published(one))))
  const server = createServer((request, response) => {
    const name = decodeURIComponent(request.url ?? '/').slice(1)
    const found = manifests.get(name)
    const tarball = packages.find((one) => path.basename(one.tarball) === name)?.tarball
    if (tarball !== undefined) createReadStream(tarball).pipe(response)
    else if (found === undefined) response.writeHead(404).end('{}')
    else {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(toPackument(found, `http://${request.headers.host}`)))
    }
  })
  await new Promise<void>((resolve) => server.listen(wantedPort, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

interface Published {
  readonly manifest: { readonly name: string; readonly version: string }
  readonly file: string
  readonly integrity: string
}

async function published({ name, tarball }: PackedPackage): Promise<[string, Published]> {
  const { stdout } = await promisify(execFile)('tar', ['-xzOf', tarball, 'package/package.json'])
  const digest = createHash('sha512').update(await readFile(tarball))
  return [
    name,
    {
      manifest: JSON.parse(stdout) as Published['manifest'],
      file: path.basename(tarball),
      integrity: `sha512-${digest.digest('base64')}`,
    },
  ]
}

function toPackument({ manifest, file, integrity }: Published, origin: string): object {
  const { name, version } = manifest
  const dist = { tarball: `${origin}/${file}`, integrity }
  // Old enough for package managers that wait before they trust a release.
  const time = '2026-01-01T00:00:00.000Z'
  return {
    name,
    'dist-tags': { latest: version },
    versions: { [version]: { ...manifest, dist } },
    time: { created: time, modified: time, [version]: time },
  }
}
