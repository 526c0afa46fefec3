// Makes the pictures of the documents from real runs: the demo's evaluation and a training in a browser, and the
// learning curve of the demo. The training needs a Python with torch; OSMOSIS_PYTHON names another one.
// With the folder of scripts/real-models/prove.ts it makes those of the pretrained model, and nothing else: its learning
// curve, the page of its first training, and a conversation before and after it.
//
//   npx -y pnpm@12 exec node docs/pictures.ts [FOLDER]
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

import type { Locator, Page } from 'playwright-core'

import { exampleFiles, writeNewFiles } from '../packages/create/src/index.ts'
import { compareRuns, RunTable, toRunDocument } from '../packages/eval/src/analysis/index.ts'
import { openRun } from '../packages/eval/src/index.ts'
import { launchChromium } from '../packages/viewer/test/chromium.ts'
import { pythonWithTorch, tinyTransformer } from '../test/kit/index.ts'

const root = path.resolve(import.meta.dirname, '..')
const images = path.join(import.meta.dirname, 'public/images')
const output = mkdtempSync(path.join(tmpdir(), 'osmosis-pictures-'))
const osmosis = path.join(root, 'packages/cli/src/bin.ts')
const run = promisify(execFile)

async function evaluate(): Promise<void> {
  const config = 'examples/configs/eval/multiply-openai-agents.toml'
  const flags = ['--name', 'multiply', '--output', output, '--limit', '40']
  await run(process.execPath, [osmosis, 'eval', 'run', config, ...flags], { cwd: root })
}

/** Trains a tiny model on the example with doors. */
async function train(): Promise<string> {
  const folder = path.join(output, 'doors')
  await writeNewFiles(folder, exampleFiles('doors', 'doors'))
  symlinkSync(path.join(root, 'packages/cli/node_modules'), path.join(folder, 'node_modules'))
  const python = path.join(folder, 'python')
  writeFileSync(
    python,
    `#!/bin/sh\nexec ${pythonWithTorch()} "$@" --policy-class ${tinyTransformer}\n`,
  )
  chmodSync(python, 0o755)
  const learner = ['--model', 'tiny', '--python', python, '--lora-rank', '0', '--lr', '1e-3']
  const args = ['train', 'local', 'configs/training/doors.toml', ...learner]
  const steps = ['--steps', '24', '--rows-per-step', '16']
  await run(process.execPath, [osmosis, ...args, ...steps], { cwd: folder, maxBuffer: 2 ** 26 })
  return path.join(folder, '.osmosis/training/doors')
}

async function photograph(
  what: readonly string[],
  take: (page: Page) => Promise<void>,
  colorScheme: Theme = 'light',
): Promise<void> {
  const view = spawn(process.execPath, [osmosis, 'eval', 'view', ...what], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  const browser = await launchChromium()
  try {
    let printed = ''
    while (!/http:\/\/\S+/.test(printed)) {
      const [chunk] = (await once(view.stdout, 'data')) as [Buffer]
      printed += chunk.toString()
    }
    const [url = ''] = /http:\/\/\S+/.exec(printed) ?? []
    const page = await browser.newPage({
      viewport: { width: 1280, height: 720 },
      colorScheme,
      deviceScaleFactor: 1.25,
    })
    await page.goto(url)
    await take(page)
  } finally {
    await browser.close()
    if (view.pid !== undefined) process.kill(-view.pid)
  }
}

type Theme = 'light' | 'dark'

async function takeEvaluation(page: Page): Promise<void> {
  await page.getByText('Pass rate').first().waitFor()
  await page.screenshot({ path: path.join(images, 'evaluation.png') })
  await page.getByText('#### 148501').first().click()
  await page.getByText('val1').first().waitFor()
  await page.getByText('330').first().waitFor()
  await page.screenshot({ path: path.join(images, 'transcript.png') })
}

async function takeTraining(page: Page): Promise<void> {
  await page.getByText('The same row over the steps').waitFor()
  await page.evaluate("location.hash = '#/compare/doors%2Fbefore/doors%2Fafter-step-0024'")
  await page.getByText('Every row by its change').waitFor()
  await page.screenshot({ path: path.join(images, 'comparison.png') })
}

/** A real training: the figures on its page, its rows by the step at which they were learned, and a conversation before and after. */
async function takeProof(page: Page, training: string, theme: Theme): Promise<void> {
  const picture = (name: string): string => path.join(images, `${name}-${theme}.png`)
  const [width, height] = [1200, 2000]
  const rows = page.getByRole('region', { name: 'The rows over the steps' })
  await page.setViewportSize({ width, height })
  await rows.getByRole('button', { name: 'what was learned last' }).click()
  await rows.screenshot({ path: picture('training-rows') })
  const bottom = await endOf(page.getByRole('region', { name: 'Tool calls per rollout' }))
  const clip = { x: 0, y: 0, width, height: bottom }
  await page.screenshot({ path: picture('training'), clip })
  const shots: string[] = []
  const { row, before, after } = await mostImprovedRow(training)
  for (const name of [before, after]) {
    const place = encodeURIComponent(`${path.basename(training)}/${name}`)
    await page.evaluate(`location.hash = '#/run/${place}?sel=${row}.1'`)
    const end = (await endOf(page.locator('.verdict'))) + 9
    const { x = 0, y = 0 } = (await page.locator('.reader').boundingBox()) ?? {}
    const reader = { x, y, width: width - x, height: end - y }
    const shot = await page.screenshot({ clip: reader })
    const source = `data:image/png;base64,${shot.toString('base64')}`
    shots.push(`<img width="${reader.width}" src="${source}">`)
    await page.evaluate("location.hash = '#/'")
    await page.locator('.reader').waitFor({ state: 'detached' })
  }
  const background = await page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
  const style = `display: inline-flex; align-items: start; margin: 0; background: ${background}`
  await page.goto('about:blank')
  await page.setContent(`<body style="${style}">${shots.join('')}</body>`)
  await page.locator('body').screenshot({ path: picture('conversations') })
}

/** Pixels from the top to below an element, once it is there. */
async function endOf(element: Locator): Promise<number> {
  await element.waitFor()
  const { y = 0, height = 0 } = (await element.boundingBox()) ?? {}
  return y + height + 7
}

/** The held-out row whose reward rose most, and the runs before and after the training. */
async function mostImprovedRow(training: string): Promise<{
  readonly row: number
  readonly before: string
  readonly after: string
}> {
  const runs = path.join(training, 'runs')
  const names = readdirSync(runs).filter((name) => name.startsWith('after-step-'))
  const [before, after] = ['before', names.toSorted().at(-1) ?? 'none']
  const [a, b] = await Promise.all(
    [before, after].map(async (name) => {
      const { manifest, sortedEvents } = await openRun(path.join(runs, name))
      return new RunTable(toRunDocument(manifest, sortedEvents))
    }),
  )
  if (a === undefined || b === undefined) throw new TypeError('Two runs have two tables.')
  const best = compareRuns(a, b, { metric: 'reward' }).rows.at(-1)
  if (best === undefined) throw new Error(`no row is in both ${before} and ${after}`)
  return { row: best.b.row, before, after }
}

async function plotDemo(): Promise<void> {
  const { stdout } = await run('pnpm', ['run', 'demo:train', '--output', output], { cwd: root })
  const points = [...stdout.matchAll(/^ *(\d+) {4}([\d.]+) {2}/gm)].map(
    ([, update, reward]): Point => [Number(update), Number(reward)],
  )
  if (points.length < 10)
    throw new Error(`no learning curve in the output of demo:train:\n${stdout}`)
  writeFileSync(path.join(images, 'learning-curve.svg'), curve([{ points, heldOut: [] }]))
}

/** The trainings of a proof: the mean reward of each step, and the held-out rows with their intervals. */
function plotProof(proofs: Proof['proofs']): void {
  const series = proofs.map(({ training }): Series => {
    const lines = readFileSync(path.join(training, 'training.jsonl'), 'utf8').trim().split('\n')
    const records = lines.map((line) => JSON.parse(line) as TrainingLine)
    return {
      points: records
        .filter(({ kind }) => kind === 'step')
        .map(({ step, rollouts }): Point => [step, rollouts?.reward ?? 0]),
      heldOut: records
        .filter(({ kind }) => kind === 'evaluation')
        .map(({ step, rollouts }) => ({
          point: [step, rollouts?.reward ?? 0],
          interval: [rollouts?.rewardFrom ?? 0, rollouts?.rewardTo ?? 0],
        })),
    }
  })
  writeFileSync(path.join(images, 'pretrained.svg'), curve(series))
}

interface Proof {
  readonly proofs: readonly { readonly training: string }[]
}

interface TrainingLine {
  readonly kind: string
  readonly step: number
  readonly rollouts?: {
    readonly reward: number
    readonly rewardFrom: number
    readonly rewardTo: number
  }
}

function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, 'utf8'))
}

/** The updates so far, and the mean reward. */
type Point = readonly [update: number, reward: number]

interface Series {
  readonly points: readonly Point[]
  readonly heldOut: readonly {
    readonly point: Point
    readonly interval: readonly [low: number, high: number]
  }[]
}

const colors = ['#3451b2', '#c2410c']

/** A plot of the mean reward over the updates of the policy. */
function curve(series: readonly Series[]): string {
  const [left, top, width, height] = [70, 30, 640, 220]
  const last = Math.max(...series.flatMap(({ points }) => points.map(([update]) => update)))
  const x = (update: number): string => (left + (update / last) * width).toFixed(1)
  const y = (reward: number): string => (top + (1 - reward) * height).toFixed(1)
  const grid = [0, 0.25, 0.5, 0.75, 1].map(
    (reward) =>
      `<line x1="${left}" x2="${left + width}" y1="${y(reward)}" y2="${y(reward)}" stroke="#ddd"/>` +
      `<text x="${left - 10}" y="${y(reward)}" dy="4" text-anchor="end">${reward}</text>`,
  )
  const every = last > 10 ? 5 : 1
  const updates = Array.from({ length: Math.floor(last / every) + 1 }, (_, at) => at * every)
  const ticks = updates.map(
    (update) =>
      `<text x="${x(update)}" y="${top + height + 22}" text-anchor="middle">${update}</text>`,
  )
  const drawn = series.flatMap(({ points, heldOut }, at) => {
    const color = colors[at % colors.length]
    const line = points.map(([update, reward]) => `${x(update)},${y(reward)}`).join(' ')
    return [
      `<polyline points="${line}" fill="none" stroke="${color}" stroke-width="3"/>`,
      ...points.map(
        ([update, reward]) =>
          `<circle cx="${x(update)}" cy="${y(reward)}" r="3.5" fill="${color}"/>`,
      ),
      ...heldOut.map(
        ({ point: [update, reward], interval: [low, high] }) =>
          `<line x1="${x(update)}" x2="${x(update)}" y1="${y(low)}" y2="${y(high)}" stroke="${color}" stroke-width="2"/>` +
          `<rect x="${Number(x(update)) - 6}" y="${Number(y(reward)) - 6}" width="12" height="12" fill="#fff" stroke="${color}" stroke-width="3"/>`,
      ),
    ]
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 310" font-family="system-ui, sans-serif" font-size="13" fill="#555">`,
    '<rect width="740" height="310" fill="#fff"/>',
    ...grid,
    ...ticks,
    `<text x="${left + width / 2}" y="300" text-anchor="middle">updates of the policy</text>`,
    `<text x="16" y="${top + height / 2}" transform="rotate(-90 16 ${top + height / 2})" text-anchor="middle">mean reward</text>`,
    ...drawn,
    '</svg>\n',
  ].join('\n')
}

mkdirSync(images, { recursive: true })
const [, , proof] = process.argv
if (proof === undefined) {
  await evaluate()
  await photograph(['multiply', '--output', output], takeEvaluation)
  await photograph([await train()], takeTraining)
  await plotDemo()
} else {
  const { proofs } = readJson(path.join(proof, 'proof.json')) as Proof
  plotProof(proofs)
  const [{ training } = { training: proof }] = proofs
  for (const theme of ['light', 'dark'] as const) {
    await photograph([training], (page) => takeProof(page, training, theme), theme)
  }
}
