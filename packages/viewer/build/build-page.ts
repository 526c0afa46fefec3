import { createHash } from 'node:crypto'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { build, type BuildOptions } from 'esbuild'

const page = fileURLToPath(new URL('../page', import.meta.url))

const options = {
  bundle: true,
  minify: true,
  write: false,
  target: 'es2023',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  logLevel: 'silent',
} satisfies BuildOptions

/**
 * The page as one HTML file, with a policy that allows only its own script. Reports replace `<!--data-->`
 * with their data.
 */
export async function buildPage(): Promise<string> {
  const [script, style] = await Promise.all([bundle('index.tsx'), bundle('style/index.css')])
  const policy = [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ')
  return [
    '<!doctype html>',
    '<html lang="en">',
    '<meta charset="utf-8">',
    `<meta http-equiv="content-security-policy" content="${policy}">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="referrer" content="no-referrer">',
    '<title>Evaluations</title>',
    '<link rel="icon" href="data:,">',
    `<style>${style}</style>`,
    '<div id="app"></div>',
    '<!--data-->',
    `<script type="module">${script}</script>`,
    '</html>',
    '',
  ].join('\n')
}

async function bundle(entry: string): Promise<string> {
  const result = await build({ ...options, entryPoints: [path.join(page, entry)] })
  const text = result.outputFiles[0]?.text ?? ''
  // The text must not end the element that contains it.
  return text.trim().replaceAll(/<\/(?=script|style)/gi, '<\\/')
}

function hash(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}
