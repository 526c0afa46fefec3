import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'

import Docker from 'dockerode'

import { missingPrograms } from '../../../test/kit/index.ts'

/** An image of busybox alone. */
export const image = 'osmosis-test:busybox'

/** A real daemon with {@link image}, or what is missing for one. */
export type TestDaemon =
  | { readonly docker: Docker; stop(): Promise<void> }
  | { readonly missing: string }

/** Sets DOCKER_HOST to the daemon: the one of the machine, else one of the tests, which needs root. */
export async function startDocker(): Promise<TestDaemon> {
  const missing = missingPrograms('busybox')
  if (missing.length > 0) return { missing: missing.join(', ') }
  if (await answers()) {
    const docker = new Docker()
    await importImage(docker)
    return { docker, stop: async () => {} }
  }
  if (missingPrograms('dockerd').length > 0 || process.getuid?.() !== 0)
    return { missing: 'Docker' }
  return startOwn()
}

/**
 * Runs a daemon with its folder ($1) and flags until its standard input ends, which it does however the process of the tests
 * ends, and removes the folder. Containers on the network of the host leave a mount there.
 */
const untilInputEnds = `
folder=$1; shift
exec 3<&0
dockerd "$@" 3<&- &
daemon=$!
{ cat <&3 >/dev/null; kill $daemon; } &
wait $daemon
umount "$folder/exec/netns/default" 2>/dev/null
for try in 1 2 3 4 5; do rm -rf "$folder" && break; sleep 0.2; done`

async function startOwn(): Promise<TestDaemon> {
  const folder = mkdtempSync(path.join(tmpdir(), 'osmosis-docker-'))
  const host = `unix://${path.join(folder, 'docker.sock')}`
  const flags = [
    `--host=${host}`,
    `--pidfile=${path.join(folder, 'pid')}`,
    `--data-root=${path.join(folder, 'data')}`,
    `--exec-root=${path.join(folder, 'exec')}`,
    // Changes no firewall, and needs no overlay.
    '--bridge=none',
    '--iptables=false',
    '--ip6tables=false',
    '--storage-driver=vfs',
  ]
  // A session of its own: Ctrl-C would end the shell before the daemon.
  const daemon = spawn('sh', ['-c', untilInputEnds, 'sh', folder, ...flags], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  const ended = once(daemon, 'exit').catch(() => {})
  const stop = async (): Promise<void> => {
    daemon.stdin.end()
    await ended
  }
  process.env['DOCKER_HOST'] = host
  for (let tries = 0; daemon.exitCode === null && tries < 300; tries += 1) {
    if (await answers()) {
      const docker = new Docker()
      await importImage(docker)
      return { docker, stop }
    }
    await sleep(100)
  }
  await stop()
  return { missing: 'a machine where dockerd runs' }
}

async function answers(): Promise<boolean> {
  return new Docker().ping().then(
    () => true,
    () => false,
  )
}

async function importImage(docker: Docker): Promise<void> {
  const root = mkdtempSync(path.join(tmpdir(), 'osmosis-image-'))
  try {
    // Everybody may use it.
    chmodSync(root, 0o755)
    for (const name of ['bin', 'tmp', 'etc']) mkdirSync(path.join(root, name))
    const { stdout } = spawnSync('sh', ['-c', 'command -v busybox'], { encoding: 'utf8' })
    spawnSync('cp', ['-L', stdout.trim(), path.join(root, 'bin/busybox')])
    const { stdout: names } = spawnSync('busybox', ['--list'], { encoding: 'utf8' })
    for (const name of names.trim().split('\n')) {
      if (name !== 'busybox') spawnSync('ln', ['-s', 'busybox', path.join(root, 'bin', name)])
    }
    const { stdout: tar } = spawnSync('tar', ['-C', root, '-c', '.'], { maxBuffer: 64 * 1024 ** 2 })
    const [repo, tag] = image.split(':') as [string, string]
    const progress = await docker.importImage(Readable.from([tar]), { repo, tag })
    await new Promise((resolve, reject) => {
      docker.modem.followProgress(progress, (error, output) =>
        error ? reject(error) : resolve(output),
      )
    })
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}
