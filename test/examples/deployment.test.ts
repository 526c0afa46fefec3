import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import { describe, expect, it, onTestFinished } from 'vitest'
import { parseAllDocuments } from 'yaml'

import { withPrograms } from '../kit/index.ts'
import { root } from './command.ts'
import { serveHere } from './served-here.ts'

const folder = path.join(root, 'examples/deployment')

function read(name: string): string {
  return readFileSync(path.join(folder, name), 'utf8')
}

interface Container {
  args: string[]
  startupProbe: { httpGet: { path: string } }
  readinessProbe: { httpGet: { path: string } }
  livenessProbe: { httpGet: { path: string } }
}

interface PodSpec {
  terminationGracePeriodSeconds: number
  containers: [Container]
}

const [, set] = parseAllDocuments(read('kubernetes.yaml')).map(
  (document) => document.toJS() as { spec: { template: { spec: PodSpec } } },
)
const pod = set?.spec.template.spec as PodSpec
const unit = read('osmosis.service')

const commands = {
  'the image': JSON.parse(/^CMD (.*)$/m.exec(read('Dockerfile'))?.[1] ?? '[]') as string[],
  'the pods': pod.containers[0].args.flatMap((arg) => arg.split('=')),
  'the unit': /^ExecStart=\S+ serve (.*)$/m.exec(unit)?.[1]?.split(' ') ?? [],
}

it(
  'the command of the pods serves, answers the probes, and ends cleanly on SIGTERM',
  { tags: 'slow' },
  async () => {
    await serveHere(commands['the pods'], async (url) => {
      for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'] as const) {
        const { path: route } = pod.containers[0][probe].httpGet
        expect((await fetch(url + route)).status).toBe(200)
      }
    })
  },
)

// The command that runs here represents all of them.
it('the commands are the same, but for the keys, which are elsewhere on each machine', () => {
  const keys = (file: string): string[] => ['--api-key-file', file]
  const { 'the image': image, 'the pods': pods, 'the unit': service } = commands
  expect(pods).toEqual([...image, ...keys('/run/secrets/osmosis/keys')])
  expect(service).toEqual([...image, ...keys('/etc/osmosis/keys')])
})

describe.each(Object.entries(commands))('the command of %s', (_, args) => {
  it('leaves time for the results of what is ended', () => {
    const drain = Number(args[args.indexOf('--drain-timeout') + 1])
    const stop = Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])
    expect(drain).toBeGreaterThan(0)
    // Ten seconds are the default of `shutdownGraceSeconds`.
    for (const limit of [stop, pod.terminationGracePeriodSeconds]) {
      expect(limit).toBeGreaterThan(drain + 10)
    }
  })
})

withPrograms('systemd-analyze').it('systemd finds nothing wrong with the unit', async () => {
  const state = mkdtempSync(path.join(tmpdir(), 'osmosis-unit-'))
  onTestFinished(() => rmSync(state, { recursive: true }))
  const file = path.join(state, 'osmosis.service')
  // The program that it executes must exist on this machine.
  writeFileSync(file, unit.replace(/^ExecStart=\S+/m, 'ExecStart=/bin/true'))
  const { stderr } = await promisify(execFile)('systemd-analyze', ['verify', file])
  expect(stderr.split('\n').filter((line) => line.includes('osmosis.service'))).toEqual([])
})

it('the image gets nothing that a workspace keeps out of git', () => {
  const ignored = readFileSync(
    path.join(root, 'packages/create/templates/workspace/gitignore'),
    'utf8',
  )
  const left = read('Dockerfile.dockerignore')
  for (const name of ignored.trim().split('\n')) expect(left).toContain(name)
})

it('the unit reads its keys as a user that is there before it starts, to whom the file can be given', () => {
  expect(unit).toMatch(/^User=osmosis$/m)
  expect(unit).not.toContain('DynamicUser')
})
