import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'

let page: Promise<string> | undefined

/**
 * The page as HTML. A published package has it beside this file. In the sources of the workspace there
 * is none, which could be out of date: it is built when it is needed first.
 */
export function readPage(): Promise<string> {
  return (page ??= loadPage())
}

async function loadPage(): Promise<string> {
  const built = new URL('page.html', import.meta.url)
  if (existsSync(built)) return readFile(built, 'utf8')
  const builder = new URL('../build/build-page.ts', import.meta.url)
  const { buildPage } = (await import(builder.href)) as { buildPage: () => Promise<string> }
  return buildPage()
}
