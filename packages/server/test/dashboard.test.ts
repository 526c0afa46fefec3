import { readFile } from 'node:fs/promises'
import path from 'node:path'

import type { BackendWorkers } from '@osmosis/protocol'
import { LocalBackend } from '@osmosis/server/execution'
import { expect, it } from 'vitest'

import { metricsIn, post, temporaryFolder } from '../../../test/kit/index.ts'
import { AskOnce, startServer } from './running-server.ts'

const root = path.resolve(import.meta.dirname, '../../..')

/** Every metric there can be, with the labels of those that have a figure. */
async function shownMetrics(): Promise<{ names: string[]; figures: string[] }> {
  class WithWorkers extends LocalBackend {
    workers(): BackendWorkers {
      return { running: 1, restarts: { exit: 1 }, residentBytes: 1, cpuSeconds: 1 }
    }
  }
  const artifactRoot = await temporaryFolder()
  const backend = new WithWorkers({ workflow: AskOnce, artifactRoot })
  await using running = await startServer({ backend, outboxDir: await temporaryFolder() })
  await running.post()
  await running.controller.bodies()
  const text = await (await fetch(`${running.url}/metrics`)).text()
  return {
    names: [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name),
    figures: [...metricsIn(text).keys()],
  }
}

function namesIn(text: string): Set<string> {
  const found = text.match(/\b(?:osmosis|process|nodejs)_\w+/g) ?? []
  return new Set(found.map((name) => name.replace(/_bucket$/, '')))
}

it('has every metric and label of the example dashboard, and the dashboard shows all metrics', async () => {
  const { names, figures } = await shownMetrics()
  const file = path.join(root, 'examples/observability/dashboard.json')
  const dashboard = JSON.parse(await readFile(file, 'utf8')) as {
    panels: { targets?: { expr: string; legendFormat: string }[] }[]
  }
  // Workers of trainers show these; the tests of the command hold them to it.
  const targets = dashboard.panels
    .flatMap((panel) => panel.targets ?? [])
    .filter(({ expr }) => !expr.includes('osmosis_outcomes'))
  expect(namesIn(targets.map(({ expr }) => expr).join('\n'))).toStrictEqual(new Set(names))

  for (const { expr, legendFormat } of targets) {
    const labels = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label)
    for (const label of labels.filter((each) => each !== 'instance')) {
      const [name = ''] = namesIn(expr)
      const withLabel = figures.some((key) => key.startsWith(name) && key.includes(`${label}="`))
      expect(withLabel, `${name} has the label ${label}`).toBe(true)
    }
  }
})

it('has every metric of the page for operators, and no other', async () => {
  const { names } = await shownMetrics()
  const page = await readFile(path.join(root, 'docs/operating/servers.md'), 'utf8')
  const table = page
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      (line.split('|')[1] ?? '').replace('`…_p99_seconds`', '`nodejs_eventloop_lag_p99_seconds`'),
    )
  expect(namesIn(table.join('\n'))).toStrictEqual(new Set(names))
})

it('shows the answers to rollouts of callers that wait, beside those of controllers', async () => {
  await using running = await startServer({ run: true })
  await running.post()
  await post(`${running.url}/run`, {})
  const text = await (await fetch(`${running.url}/metrics`)).text()
  const counted = [...text.matchAll(/^osmosis_http_requests_total\{route="([^"]+)"/gm)]
  const routes = counted.map(([, route = '']) => route)
  expect(routes).toEqual(expect.arrayContaining(['/rollout', '/run']))

  const file = path.join(root, 'examples/observability/dashboard.json')
  const [, filter = ''] = /route=~\\"([^"\\]+)/.exec(await readFile(file, 'utf8')) ?? []
  expect(routes.filter((route) => !filter.split('|').includes(route))).toEqual([])
})
