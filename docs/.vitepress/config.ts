import llms from 'vitepress-plugin-llms'
import { withMermaid } from 'vitepress-plugin-mermaid'

import { installCommand, noteText, published } from '../../scripts/install-notes.ts'
import { base, domain, onSite, repository, writeWholeLinks } from './page-links.ts'

export default withMermaid({
  title: 'Osmosis SDK for TypeScript',
  description: 'Train LLM agents by reinforcement learning (GRPO and others) from TypeScript.',
  base,
  cleanUrls: true,
  head: [['style', {}, 'html.dark .on-light, html:not(.dark) .on-dark { display: none }']],
  srcExclude: ['node_modules/**'],
  vite: {
    // llms.txt, llms-full.txt and each page as Markdown, for coding agents.
    plugins: [llms({ domain })],
  },
  buildEnd: ({ outDir }) => writeWholeLinks(outDir),
  markdown: {
    // The ids of headings that links on GitHub name as well.
    anchor: { slugify: (heading) => idOf(heading) },
    config: (markdown) => {
      markdown.core.ruler.push('repository_links', ({ env, tokens }) => {
        const links = tokens.flatMap(({ children }) => children ?? [])
        for (const link of links) {
          const href = link.attrGet('href')
          const { relativePath } = env as { relativePath: string }
          if (href !== null) link.attrSet('href', onSite(href, relativePath))
        }
      })
      // On GitHub a picture follows the browser, and on the site the switch of the site.
      markdown.core.ruler.push('pictures', ({ tokens }) => {
        for (const { children } of tokens) {
          for (const [at, token] of (children ?? []).entries()) {
            if (token.type !== 'html_inline') continue
            token.content = pictureTag(token.content, children?.[at + 1]?.content ?? '')
          }
        }
      })
      markdown.core.ruler.push('note_before_install', ({ tokens, Token }) => {
        const first = tokens.findIndex(
          ({ type, content }) => type === 'fence' && installCommand.test(content),
        )
        if (published || first === -1) return
        const note = new Token('html_block', '', 0)
        const link = `<a href="${base}get-started/from-a-clone">a registry from a clone</a>`
        note.content = `<div class="info custom-block"><p>${noteText}: this needs ${link}.</p></div>\n`
        tokens.splice(first, 0, note)
      })
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    socialLinks: [{ icon: 'github', link: repository }],
    nav: [
      { text: 'Get started', link: '/get-started/quickstart' },
      { text: 'Guides', link: '/guides/workflows' },
      { text: 'Frameworks', link: '/frameworks/' },
      { text: 'Training', link: '/training/' },
      { text: 'Operating', link: '/operating/serving' },
      { text: 'Reference', link: '/reference/configuration' },
      { text: 'Contributing', link: '/architecture' },
    ],
    sidebar: [
      {
        text: 'Get started',
        items: [
          { text: 'Quickstart', link: '/get-started/quickstart' },
          { text: 'Install from a clone', link: '/get-started/from-a-clone' },
          { text: 'How it works', link: '/get-started/concepts' },
          { text: 'Coming from another tool', link: '/get-started/coming-from' },
        ],
      },
      {
        text: 'Guides',
        items: [
          { text: 'Workflows', link: '/guides/workflows' },
          { text: 'Graders', link: '/guides/graders' },
          { text: 'Datasets', link: '/guides/datasets' },
          { text: 'Structured output', link: '/guides/structured-output' },
          { text: 'Concurrency in a program', link: '/guides/concurrency' },
          { text: 'Evaluation', link: '/guides/evaluation' },
          { text: 'Reading a run', link: '/guides/reading-runs' },
          { text: 'Models and judges', link: '/guides/models' },
          { text: 'Hand-written agent loops', link: '/guides/agent-loop' },
          { text: 'Commands', link: '/guides/commands' },
          { text: 'Trajectory documents', link: '/guides/trajectories' },
          { text: 'The hosted platform', link: '/guides/platform' },
          { text: 'Troubleshooting', link: '/guides/troubleshooting' },
        ],
      },
      {
        text: 'Frameworks',
        items: [
          { text: 'Overview', link: '/frameworks/' },
          { text: 'OpenAI Agents SDK', link: '/frameworks/openai-agents' },
          { text: 'Strands Agents', link: '/frameworks/strands' },
          { text: 'Vercel AI SDK', link: '/frameworks/ai-sdk' },
          { text: 'LangChain and LangGraph', link: '/frameworks/langchain' },
          { text: 'Mastra', link: '/frameworks/mastra' },
          { text: 'Google ADK', link: '/frameworks/google-adk' },
          { text: 'Pi', link: '/frameworks/pi' },
          { text: 'Claude Agent SDK', link: '/frameworks/claude-agent-sdk' },
          { text: 'Codex', link: '/frameworks/codex' },
          { text: 'Any other framework', link: '/frameworks/any-framework' },
        ],
      },
      {
        text: 'Training',
        items: [
          { text: 'Overview', link: '/training/' },
          { text: 'Choosing a model and hardware', link: '/training/model-and-hardware' },
          { text: 'One GPU or your laptop', link: '/training/local' },
          { text: 'When it does not learn', link: '/training/when-it-does-not-learn' },
          { text: 'Tinker', link: '/training/tinker' },
          { text: 'Osmosis', link: '/training/osmosis' },
          { text: 'Agent Lightning', link: '/training/agent-lightning' },
          { text: 'Miles', link: '/training/miles' },
          { text: 'TRL, slime, rLLM, verifiers, Trinity', link: '/training/shims' },
          { text: 'How we know that it trains', link: '/training/how-we-know' },
        ],
      },
      {
        text: 'Operating',
        items: [
          { text: 'Serving', link: '/operating/serving' },
          { text: 'Operating a server', link: '/operating/servers' },
          { text: 'Behind a load balancer', link: '/operating/load-balancers' },
          { text: 'Rollouts on many machines', link: '/operating/distributed' },
          { text: 'Performance', link: '/operating/performance' },
        ],
      },
      {
        text: 'Reference',
        items: [
          { text: 'Configuration', link: '/reference/configuration' },
          { text: 'Commands and flags', link: '/reference/flags' },
          { text: 'Versions', link: '/reference/versions' },
          { text: 'Server', link: '/reference/server' },
          { text: 'Drive a server from code', link: '/reference/controller' },
          { text: 'Evaluate from code', link: '/reference/evaluation' },
          { text: 'API', link: '/api/index.html', target: '_blank' },
        ],
      },
      {
        text: 'Contributing',
        items: [
          { text: 'Architecture', link: '/architecture' },
          { text: 'Write an adapter', link: '/contributing/write-an-adapter' },
          { text: 'Framework interventions', link: '/contributing/framework-interventions' },
        ],
      },
    ],
  },
})

/**
 * A tag of a `<picture>` with a source for dark pages and an image for light ones, as a tag of one of two images.
 *
 * @param next - the tag behind it
 */
function pictureTag(tag: string, next: string): string {
  if (/^<\/?picture>$/.test(tag)) return ''
  const [, dark] =
    /^<source media="\(prefers-color-scheme:dark\)" srcset="([^"]*)">$/.exec(tag) ?? []
  if (dark !== undefined) {
    return next.replace('<img', '<img class="on-dark"').replace(/src="[^"]*"/, `src="${dark}"`)
  }
  return tag.replace('<img', '<img class="on-light"')
}

/** The id that GitHub gives a heading. */
function idOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\s-]/gu, '')
    .replaceAll(/\s/g, '-')
}
