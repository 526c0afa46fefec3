import { readFileSync } from 'node:fs'
import path from 'node:path'

import { createRun, openRun } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { madeManifest, madeRows } from '../../../test/kit/index.ts'
import { run, start } from './in-process.ts'
import { startOsmosis, temporaryFolder } from './osmosis.ts'

const manifest = madeManifest({ run_name: 'sums', rows: madeRows(1) })

/** A folder with a run of which nothing has ended. */
async function folderWithRun(): Promise<string> {
  const outputRoot = temporaryFolder()
  await (await createRun({ outputRoot, manifest })).close()
  return outputRoot
}

it('eval view prints a link to its page and serves it until Ctrl-C', async () => {
  const output = await folderWithRun()
  const command = startOsmosis(['eval', 'view', 'sums', '--output', output])
  const [link] = await command.printed(/http:\/\/127\.0\.0\.1:\d+\/#token=[\w-]+\/run\/sums/)
  const page = await fetch(link)
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
  const token = /token=([\w-]+)/.exec(link)?.[1] ?? ''
  const headers = { authorization: `Bearer ${token}` }
  const runs: unknown = await (await fetch(new URL('/api/runs', link), { headers })).json()
  expect(runs).toMatchObject([{ name: 'sums', state: 'incomplete', ended: 0, total: 1 }])
  command.child.kill('SIGINT')
  expect((await command.finished).code).toBe(0)
})

it('eval view takes the folder of a run, wherever it is', async () => {
  const output = await folderWithRun()
  const command = start(['eval', 'view', path.join(output, 'sums'), '--no-open'])
  await command.printed(/\/run\/sums/)
  expect((await command.end()).code).toBe(0)
})

it('eval view takes latest, the beginning of a name, and a name with an @', async () => {
  const output = await folderWithRun()
  const newest = { ...manifest, run_name: 'products', created_at: '2026-11-21T09:00:00.000Z' }
  const store = await createRun({ outputRoot: output, manifest: newest })
  await store.close()
  await (await openRun(store.location)).addGrades('strict', [])
  const opened = { latest: 'products', su: 'sums', 'latest@strict': 'products%40strict' }
  for (const [name, place] of Object.entries(opened)) {
    const command = start(['eval', 'view', name, '--output', output])
    const [link] = await command.printed(/http:\S+\n/)
    expect(link.trimEnd()).toMatch(new RegExp(`/run/${place}$`))
    expect((await command.end()).code).toBe(0)
  }
})

it('eval view without a run opens the one that is running, and else the list', async () => {
  const output = await folderWithRun()
  const list = start(['eval', 'view', '--output', output])
  const [link] = await list.printed(/http:\S+\n/)
  expect(link.trimEnd()).toMatch(/#token=[\w-]+\/$/)
  await list.end()
  const running = await createRun({
    outputRoot: output,
    manifest: { ...manifest, run_name: 'now' },
  })
  try {
    const view = start(['eval', 'view', '--output', output])
    await view.printed(/\/run\/now\n/)
    expect((await view.end()).code).toBe(0)
  } finally {
    await running.close()
  }
})

it('eval view --export writes a report', async () => {
  const output = await folderWithRun()
  const file = path.join(output, 'report.html')
  const finished = await run(['eval', 'view', 'sums', '--output', output, '--export', file])
  expect(finished).toMatchObject({ code: 0, stderr: '' })
  expect(finished.stdout).toMatch(/report\.html: 0\.\d MiB, 0 rollouts, 0 with their transcript\n$/)
  expect(readFileSync(file, 'utf8')).toContain('<script type="application/json" id="embedded">')
})

it('eval view --export says why a report cannot be written', async () => {
  const output = await folderWithRun()
  const file = path.join(output, 'nowhere/report.html')
  const finished = await run(['eval', 'view', 'sums', '--output', output, '--export', file])
  expect(finished).toMatchObject({ code: 1, stdout: '' })
  expect(finished.stderr).toMatch(/Cannot write the report .*report\.html: ENOENT/)
})

it.each([
  { name: 'a run that is not there', args: ['other'], message: 'there are sums.' },
  { name: 'an unknown variant', args: ['sums@x'], message: 'There is no sums@x' },
  { name: 'a report of no run', args: ['--export', 'x.html'], message: 'Name the run' },
])('eval view refuses $name with 2', async ({ args, message }) => {
  const output = await folderWithRun()
  const finished = await run(['eval', 'view', ...args, '--output', output])
  expect(finished).toMatchObject({ code: 2, stdout: '' })
  expect(finished.stderr).toContain(message)
})
