import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

export const repository = 'https://github.com/osmosis-ai/osmosis-sdk-typescript'
/** GitHub Pages serves a project below its name. */
export const base = '/osmosis-sdk-typescript/'
export const domain = 'https://osmosis-ai.github.io'

const docs = path.resolve(import.meta.dirname, '..')

/** Pages are read in the repository, too, where they link to its other files. On the site these links lead to GitHub. */
export function onSite(href: string, page: string): string {
  if (/^(?:[a-z]+:|#|\/)/.test(href)) return href
  const file = path.posix.join('docs', path.posix.dirname(page), href)
  return file.startsWith('docs/') ? href : `${repository}/blob/main/${file}`
}

/** The page, as a path below docs, behind an address of the site without its heading; undefined for other addresses. */
export function pageAt(address: string): string | undefined {
  const site = `${domain}${base}`
  if (!address.startsWith(site)) return undefined
  const place = address.slice(site.length)
  return /(?:^|\/)$/.test(place) ? `${place}index.md` : `${place}.md`
}

/**
 * Makes the links of all pages that the build wrote as Markdown whole addresses: a coding agent reads one page, or all in one file, at
 * another place than where their links start.
 */
export function writeWholeLinks(site: string): void {
  for (const file of globSync('**/*.md', { cwd: site })) {
    const place = path.join(site, file)
    writeFileSync(place, withWholeLinks(readFileSync(place, 'utf8'), sourceOf(file)))
  }
  const all = path.join(site, 'llms-full.txt')
  // Each page begins with its address.
  const pages = readFileSync(all, 'utf8').split(/(?=^---\nurl:)/m)
  writeFileSync(all, pages.map((text) => withWholeLinks(text, sourceOf(fileIn(text)))).join(''))
}

/** The name of a page's Markdown on the site, by the address that it begins with. */
function fileIn(text: string): string {
  // YAML folds a long address.
  const [, address = ''] = /^---\nurl:(?: >-)?\s+(\S+)\n/.exec(text) ?? []
  return address.slice(`${domain}${base}`.length)
}

/** The page of a Markdown file on the site: `training.md` is made of `training/index.md`. */
function sourceOf(file: string): string {
  return existsSync(path.join(docs, file)) ? file : file.replace(/\.md$/, '/index.md')
}

/**
 * A page with whole addresses instead of links to other files.
 *
 * @param isBeside - whether a page is beside this one where it will be read, so that its link stays
 */
export function withWholeLinks(
  text: string,
  page: string,
  isBeside: (target: string) => boolean = () => false,
): string {
  return text.replaceAll(
    /(?<=\]\()([^()\s#]+\.(?:md|png|svg)|(?:\.\.\/)+[^()\s#]+)(?=[#)])/g,
    (href) => {
      const link = onSite(href, page)
      if (link !== href || /^(?:[a-z]+:|\/)/.test(link)) return link
      const target = path.posix.join(path.posix.dirname(page), href)
      if (isBeside(target)) return href
      return `${domain}${base}${target.replace(/\/index\.md$/, '.md').replace(/^public\//, '')}`
    },
  )
}
