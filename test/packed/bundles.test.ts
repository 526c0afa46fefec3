import { readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { afterAll, expect, inject, it } from 'vitest'

import { cleanUp, npmInstall, run, tarballsOf } from './workspace.ts'

const tarballs = tarballsOf(inject('packed'))

afterAll(cleanUp)

/** An app for users, alone and with our model around its own. */
interface App {
  readonly install: readonly string[]
  readonly alone: string
  readonly around: string
}

const apps: Readonly<Record<string, App>> = {
  '@osmosis/ai-sdk': {
    install: ['ai@7', '@ai-sdk/openai-compatible'],
    alone: `import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
      import { generateText } from 'ai'
      const provider = createOpenAICompatible({ name: 'mine', baseURL: 'http://127.0.0.1:1/v1' })
      export const said = (model) => generateText({ model, prompt: 'go', maxRetries: 0 })
      export const fallback = provider('mine')`,
    around: `import { rolloutModel } from '@osmosis/ai-sdk'
      import { fallback, said } from './alone.js'
      await said(rolloutModel({ fallback })).catch((error) => console.log(error.name))`,
  },
  '@osmosis/openai-agents': {
    install: ['@openai/agents'],
    alone: `import { Agent, run } from '@openai/agents'
      export const fallback = { getResponse: async () => { throw new TypeError('none') } }
      export const said = (Agent, model) => run(new Agent({ name: 'main', model }), 'go')
      export { Agent }`,
    around: `import { OsmosisAgent, OsmosisRolloutModel } from '@osmosis/openai-agents'
      import { fallback, said } from './alone.js'
      const model = new OsmosisRolloutModel({ fallback })
      await said(OsmosisAgent, model).catch((error) => console.log(error.name))`,
  },
}

/** What our part may add to what an app loads; minified. Bytes. */
const most = 100 * 1024

it.each([
  ['@osmosis/ai-sdk', 'AI_APICallError'],
  ['@osmosis/openai-agents', 'TypeError'],
])(
  'an app for users with %s loads little more, and nothing that rollouts need',
  async (name, error) => {
    const { install = [], alone = '', around = '' } = apps[name] ?? {}
    const folder = await npmInstall([...tarballs(name), ...install, 'esbuild@0.28'])
    await writeFile(path.join(folder, 'alone.js'), alone)
    await writeFile(path.join(folder, 'around.js'), around)
    const before = await bundle(folder, 'alone')
    const after = await bundle(folder, 'around')
    expect(bytesLoaded(after, 'around') - bytesLoaded(before, 'alone')).toBeLessThan(most)

    const ofUndici = Object.keys(after).filter((file) => /\bundici\b/.test(path.basename(file)))
    expect(ofUndici).toHaveLength(1)
    for (const file of ofUndici) await rm(path.join(folder, file))
    expect(await run(folder, 'node', ['bundle/around.js'])).toBe(`${error}\n`)
  },
)

it.each(['edge-light', 'workerd', 'browser'])(
  'a bundle for an edge runtime or a browser names us and what to do: %s',
  async (condition) => {
    const folder = await npmInstall([...tarballs('@osmosis/ai-sdk'), 'ai@7', 'esbuild@0.28'])
    await writeFile(
      path.join(folder, 'route.js'),
      `import { rolloutModel } from '@osmosis/ai-sdk'
      console.log(rolloutModel)`,
    )
    const flags = ['--bundle', '--platform=browser', '--format=esm', '--outfile=bundle.js']
    const chosen = `--conditions=${condition}`
    await run(folder, 'node_modules/.bin/esbuild', ['route.js', ...flags, chosen])
    await expect(run(folder, 'node', ['bundle.js'])).rejects.toMatchObject({
      stderr: expect.stringContaining('Error: @osmosis/ai-sdk needs Node.js, and this is an edge'),
    })
  },
)

/** The files that esbuild writes, as its metafile has them. */
type Outputs = Readonly<
  Record<
    string,
    { readonly bytes: number; readonly imports: readonly { path: string; kind: string }[] }
  >
>

async function bundle(folder: string, entry: string): Promise<Outputs> {
  const form = ['--bundle', '--platform=node', '--format=esm', '--splitting', '--minify']
  // Code of CommonJS in them calls `require`.
  const banner = `--banner:js=import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);`
  const flags = [...form, banner, '--outdir=bundle', '--metafile=meta.json', '--log-level=error']
  await run(folder, 'node_modules/.bin/esbuild', [`${entry}.js`, ...flags])
  const meta = JSON.parse(readFileSync(path.join(folder, 'meta.json'), 'utf8')) as {
    outputs: Outputs
  }
  return meta.outputs
}

/** Of an entry and the chunks that it imports when it starts. */
function bytesLoaded(outputs: Outputs, entry: string): number {
  const loaded = new Set([`bundle/${entry}.js`])
  for (const file of loaded) {
    for (const { path: chunk, kind } of outputs[file]?.imports ?? []) {
      if (kind === 'import-statement' && chunk in outputs) loaded.add(chunk)
    }
  }
  return [...loaded].reduce((sum, file) => sum + (outputs[file]?.bytes ?? 0), 0)
}
