# `make` prints what there is. Every target works on a fresh machine: it installs what it needs into .venv first.
PYTHON ?= python3
BIN    := .venv/bin
GPU_PYTHON ?= $(if $(wildcard .venv/bin/python),.venv/bin/python,$(PYTHON))   # a machine without a network has no .venv
NOT_INSTALLED := PYTHONPATH=$(CURDIR)/launcher$(if $(PYTHONPATH),:$(PYTHONPATH))
# On two cores, too: a test that starts a training waits for it a fifth of its time.
AT_ONCE ?= 3
SIDE_BY_SIDE := $(if $(filter 1,$(AT_ONCE)),,-n $(AT_ONCE) --dist loadfile --no-loadscope-reorder)
EXTRAS := ultralytics,transformers,sentence-transformers,lora,demo,dev

.DEFAULT_GOAL := help
.PHONY: help install test test-slow check schema docs demo demo-separator demo-whisper demo-ranks gpu-check gpu-hour survival faults ranks fit same-training peers versions third-party ckpt-chaos played-against-real cost clean

help:           ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | column -t -s '|'

install: .venv/installed   ## the pinned environment, into .venv

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	$(BIN)/uv pip install --quiet --python .venv --constraint constraints.txt --compile-bytecode --editable '.[$(EXTRAS)]'
	@touch $@

test: install   ## the tests that run everywhere, in minutes, three files at a time (AT_ONCE=1: one)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

SLOW          := $(shell grep -rl '[^"]pytest.mark.slow' tests --include=*.py)
slow_same     := %/test_same.py
slow_weights  := %/test_as_it_stands.py %/test_text_and_speech.py %/test_checkpointing_from_outside.py
slow_promise  := %/test_hidden_nan.py
slow_recovery := %/test_recovery.py %/test_going_on.py %/test_yolo_exact_checkpointing.py %/test_slurm.py
slow_ranks    := %/test_ranks.py %/test_on_cards.py
slow_trials   := tests/inside/% tests/trainers/ultralytics/inside/%
slow_jobs     := %/test_five_jobs.py
SLICES        := same weights promise recovery ranks trials jobs
slow_rest     := $(filter-out $(foreach slice,$(SLICES),$(slow_$(slice))),$(SLOW))
CHOSEN        := $(filter $(if $(SLICE),$(slow_$(SLICE)) $(SLICE) $(SLICE)/%,%),$(SLOW))

test-slow: install $(CHOSEN:tests/%=build/slow/%)   ## end-to-end cases with many real trials, in slices of half an hour on 2 idle cores (SLICE=same, weights, promise, recovery, ranks, trials, jobs or rest, or a folder or file). What has passed isn't run again before launcher/ changes
	$(if $(CHOSEN),@echo $(words $(CHOSEN)) files have passed,$(error no slice, folder or file of slow tests: $(SLICE)))

build/slow/%: tests/% $(shell find launcher -name '*.py')
	$(BIN)/python -m pytest -m slow $< && mkdir -p $(@D) && touch $@

schema: install  ## docs/record.schema.json, after a change of history/records.py
	$(BIN)/python -c "from autofit_launcher.history.records import schema; print(schema(), end='')" > docs/record.schema.json

docs: install   ## this documentation as a site, in build/site; needs no network
	$(BIN)/python -m sphinx -W --keep-going -q -b html -c docs/site . build/site && echo build/site/index.html

check: install   ## what CI runs: lint, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

demo: install   ## the main job on real input, no GPU needed: trials, then a training to the end
	$(BIN)/autofit train recipe=yolo_demo

demo-separator: install   ## a person's own script, unchanged: music source separation, no GPU needed
	$(BIN)/autofit train recipe=separator_demo

demo-whisper: install   ## a tiny Whisper learns spoken numbers, no GPU needed: trials, training, evaluation with generation
	$(BIN)/autofit train recipe=whisper_demo

demo-ranks: install   ## two processes train together on this CPU (torchrun, gloo), what is asked runs out in one of them, and a lower rung fits both
	$(BIN)/autofit train recipe=llm_sft_demo device.cards=2

gpu-check:      ## the evidence that needs a card, into docs/gpu.md; CASE=A..F or tests, MINUTES=9, PRETENDED=h100_80gb plays a card, CARDS=4 so many; FILES="a.json b.json" takes what others have sent. Installs nothing
	$(NOT_INSTALLED) $(if $(PRETENDED),$(GPU_PYTHON) -m benchmarks.played.on_cards gpu=$(PRETENDED) $(if $(CARDS),cards=$(CARDS) )computed=small -- )$(GPU_PYTHON) -m $(if $(filter tests,$(CASE)),pytest -m gpu -rs tests/gpu,benchmarks.gpu_check $(CASE) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(FILES),--files $(FILES)))

gpu-hour:       ## what no card has shown yet, worth first, a row a step (STEPS="yolo fit", MINUTES=9, OUT=folder, WHEELS=folder; PRETENDED=h100_80gb plays a card). Installs nothing
	$(NOT_INSTALLED) $(if $(PRETENDED),$(GPU_PYTHON) -m benchmarks.played.on_cards gpu=$(PRETENDED) computed=small -- )$(GPU_PYTHON) -m benchmarks.gpu_hour $(STEPS) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(OUT),--out $(OUT)) $(if $(WHEELS),--wheels $(WHEELS))

survival: install   ## full runs launched after a fit, on nasty data near the edge (hours; SLICE=10: ten more, SHORT=1: of few steps, RANKS=1: of two ranks, BESIDE=1: little beside the device; SEED=17: one again)
	$(BIN)/python -m benchmarks.survival $(if $(SHORT),--short) $(if $(RANKS),--ranks) $(if $(BESIDE),--beside) $(if $(SEED),--seed $(SEED),$(if $(SLICE),--slice $(SLICE))) $(if $(JOBS),--jobs $(JOBS))

faults: install   ## trainings with a fault done to each from outside, into docs/faults.md (resumable; SLICE=10: ten more, FAULTS=small_disk,few_files: of these, SEED=17: that one)
	$(BIN)/python -m benchmarks.faults $(if $(SEED),--seed $(SEED),$(if $(SLICE),--slice $(SLICE)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(JOBS),--jobs $(JOBS)))

ckpt-chaos: install   ## trainings killed at the file boundaries of their saves, and resumed, into docs/ckpt_chaos.md (ONLY=yolo, POINTS=24, WHO=trainer)
	$(BIN)/python -m benchmarks.ckpt_chaos $(if $(ONLY),--only $(ONLY)) $(if $(POINTS),--points $(POINTS)) $(if $(WHO),--who $(WHO))

played-against-real: install   ## what real cards have measured, played with the same PyTorch (PYTHON_OF=its interpreter, ONLY=litgpt), into docs/pretended.md
	$(BIN)/python -m benchmarks.against_real $(if $(PYTHON_OF),--python $(PYTHON_OF) $(if $(ONLY),--only $(ONLY)))

cost: install   ## Enter to the first optimizer step beside the plain command's, into docs/cost.md (ONLY=yolo)
	$(BIN)/python -m benchmarks.cost.first_step $(if $(ONLY),--only $(ONLY))

ranks: install   ## one of several ranks runs out, dies or hangs, in trials and runs, into docs/ranks.md (resumable; SLICE=10: ten more, SEED=17: that one)
	$(BIN)/python -m benchmarks.ranks $(if $(SEED),--seed $(SEED),$(if $(SLICE),--slice $(SLICE)) $(if $(COSTS),--costs $(COSTS)))

fit: install   ## trials and time of each search over real asks and budgets, into docs/fit.md (hours, resumable; SLICE=4: four more cases)
	$(BIN)/python -m benchmarks.fit $(if $(SLICE),--slice $(SLICE)) $(if $(ONLY),--only $(ONLY))

same-training: install   ## is a lower rung the same training, measured from outside, into docs/same_training.md (resumable; SLICE=10, ONLY=plain-2x4, AGAIN=1)
	$(BIN)/python -m benchmarks.same_training $(if $(SLICE),--slice $(SLICE)) $(if $(ONLY),--only $(ONLY)) $(if $(AGAIN),--again) $(if $(PEERS_PYTHON),--python $(PEERS_PYTHON))

peers: install   ## what accelerate, Lightning and Trainer find by themselves in the same cases, into docs/fit.md (PEERS_PYTHON: one with lightning)
	$(BIN)/python -m benchmarks.peers $(if $(PEERS_PYTHON),--python $(PEERS_PYTHON))

versions: install   ## what works with which Ultralytics, transformers, torch and Python (hours, resumable; ONLY=yolo-8.4.150: one)
	$(BIN)/python -m benchmarks.versions $(if $(ONLY),--only $(ONLY)) $(if $(JOBS),--jobs $(JOBS))

third-party: install   ## other people's repositories, unpacked in REPOS=folder, into docs/scripts.md (resumable; ONLY=mnist: one)
	$(BIN)/python -m benchmarks.third_party $(REPOS) $(if $(ONLY),--only $(ONLY)) $(if $(SCRIPT_PYTHON),--python $(SCRIPT_PYTHON))

clean:          ## removes the environment, not your runs or data
	rm -rf .venv
